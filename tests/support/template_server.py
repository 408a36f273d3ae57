"""A pod template server with nothing in its template: the protocol of ``launcher`` and no more.

Run with the path of its socket; prints one line when it listens. Serves one connection.
"""

import asyncio
import json
import os
import signal
import sys
from typing import Any


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Fork what is asked for and say how it ends; kill it all when the connection ends."""
    loop, children = asyncio.get_running_loop(), set[int]()

    def say(**message: Any) -> None:
        writer.write(json.dumps(message).encode() + b"\n")

    def ended(pid: int, pidfd: int) -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        children.discard(pid)
        say(pid=pid, status=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    while line := await reader.readline():
        request = json.loads(line)
        if not os.path.isdir(request["cwd"]):  # noqa: PTH112, ASYNC240 - as small as can be
            say(id=request["id"], error=f"no folder {request['cwd']}")
            continue
        pid = os.fork()
        if pid == 0:
            become(request)
        children.add(pid)
        pidfd = os.pidfd_open(pid)
        loop.add_reader(pidfd, ended, pid, pidfd)
        say(id=request["id"], pid=pid)
    for pid in children:
        os.killpg(pid, signal.SIGKILL)
    loop.stop()


def become(request: dict[str, Any]) -> None:
    """In the child: be the pod's process. Here by exec; a real template calls its own main."""
    try:
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(request["cwd"])
        os.execvpe(request["argv"][0], request["argv"], request["env"])
    finally:
        os._exit(127)


async def main() -> None:
    """Listen and say so."""
    server = await asyncio.start_unix_server(serve, sys.argv[1])
    print("listening", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except RuntimeError:
        sys.exit(0)  # the loop was stopped: the connection has ended
