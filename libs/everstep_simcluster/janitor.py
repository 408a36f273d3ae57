"""Cleans up after a cluster however it ends: run as a process of its own that outlives it.

It reads lines from its standard input: ``+PID`` names a session that is to die with the cluster,
``-PID`` one that has ended. When the input ends, as it does when the cluster's process dies, it
kills what is left and removes the cluster's network and its temporary folder.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

from everstep_simcluster.network import remove_network
from everstep_simcluster.processes import kill_all

END_TIMEOUT_SECONDS = 20.0
"""How long a closing cluster waits for its janitor."""


class Janitor:
    """The cluster's end of it.

    Args:
        network: The number of the cluster's network and the file that claims it; the janitor
            holds the claim too, so nobody takes the number before it is done. None without one.
        folder: What is to be removed in the end; None for nothing.
    """

    def __init__(self, network: tuple[int, IO[str]] | None, folder: Path | None) -> None:
        number, claim = (str(network[0]), network[1]) if network else ("", None)
        read_end, self._pipe = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, number, str(folder or "")],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
            pass_fds=[claim.fileno()] if claim else [],
        )
        os.close(read_end)

    def watch(self, session: int) -> None:
        """Have that session die with the cluster."""
        self._say(f"+{session}\n")

    def forget(self, session: int) -> None:
        """That session has ended."""
        self._say(f"-{session}\n")

    async def close(self) -> None:
        """Let it finish; kills whatever is still being watched."""
        os.close(self._pipe)
        await asyncio.to_thread(self._process.wait, END_TIMEOUT_SECONDS)

    def _say(self, line: str) -> None:
        os.write(self._pipe, line.encode())


def main() -> int:
    """Wait for the cluster's end, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sessions: set[int] = set()
    for line in sys.stdin:
        session = int(line[1:])
        if line.startswith("+"):
            sessions.add(session)
        else:
            sessions.discard(session)
    kill_all(sessions)
    network, folder = sys.argv[1:]
    if network:
        remove_network(int(network))
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
