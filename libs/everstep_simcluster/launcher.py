"""How a pod's process comes to life: by exec, or forked from a template that has imported already.

Protocol of a template server, a process that listens on a Unix stream socket. Each direction
carries JSON objects, one a line.

    to it      {"id": 7, "argv": ["everstep", "run", ...], "env": {"NAME": "value", ...},
                "cwd": "/absolute/folder", "netns": "/run/netns/NAME" or null,
                "log": "/absolute/file"}
    from it    {"id": 7, "pid": 4711}             the process has been forked
               {"id": 7, "error": "why"}          it could not be
               {"pid": 4711, "status": 0}         it has ended: exit code, or minus the signal

The server is the parent of what it forks. For each request it forks a child that becomes leader of
a session of its own (``setsid``), asks to be killed when its parent dies (``PR_SET_PDEATHSIG``),
enters the network namespace, replaces its environment, appends stdout and stderr to the log, and
runs ``argv``. Requests may come faster than answers; ``id`` tells them apart. When the connection
ends, the server kills the sessions it started for it. An empty ``netns`` means: stay where you are.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from everstep_simcluster.errors import LaunchError

START_TIMEOUT_SECONDS = 30.0
"""How long a template server may take to fork one process."""

_LOST = -signal.SIGKILL  # a template's children die with it


@dataclass(frozen=True)
class PodCommand:
    """What to run. ``netns`` is the path of a network namespace, None for the launcher's own."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    netns: str | None
    log: Path


class PodProcess:
    """A running process, the leader of its session; ``pid`` names both."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            self._pidfd = -1  # ended and reaped already; its status is on its way
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def wait(self) -> int:
        """Its exit code, or minus the signal that ended it. May be awaited many times."""
        return await asyncio.shield(self._ended)

    def send_signal(self, number: signal.Signals) -> None:
        """Signal the leader alone; nothing happens once it has ended."""
        if not self._ended.done():
            with suppress(OSError):  # it ended this instant
                signal.pidfd_send_signal(self._pidfd, number)

    def ended(self, status: int) -> None:
        """Tell whoever waits. For launchers."""
        if not self._ended.done():
            if self._pidfd >= 0:
                os.close(self._pidfd)
            self._ended.set_result(status)


class Launcher(Protocol):
    """Starts pods' processes."""

    async def start(self, command: PodCommand) -> PodProcess:
        """Start one.

        Raises:
            LaunchError: It cannot be started.
        """

    async def close(self) -> None:
        """Give back what the launcher holds; what it started may die of it."""


class ExecLauncher:
    """Starts each process afresh, as a child of this one, and watches it by its pidfd."""

    def __init__(self) -> None:
        self._running: set[PodProcess] = set()

    async def start(self, command: PodCommand) -> PodProcess:
        """Start one."""
        enter = ["nsenter", f"--net={command.netns}"] if command.netns else []
        with command.log.open("ab") as log:
            try:
                child = subprocess.Popen(  # noqa: ASYNC220 - returns when exec has happened
                    [*enter, *_die_with_parent(), *command.argv],
                    env=dict(command.env),
                    cwd=command.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise LaunchError(command.argv, str(error)) from error
        process = _ExecProcess(child, self._running.discard)
        self._running.add(process)
        return process

    async def close(self) -> None:
        """Wait for the last of the processes, which somebody has killed, so that none lingers."""
        for process in tuple(self._running):
            await process.wait()


class _ExecProcess(PodProcess):
    def __init__(
        self, child: subprocess.Popen[bytes], on_end: Callable[[PodProcess], None]
    ) -> None:
        super().__init__(child.pid)
        self._child = child
        self._on_end = on_end
        asyncio.get_running_loop().add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        self.ended(self._child.wait())
        self._on_end(self)


def _die_with_parent() -> list[str]:
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


class TemplateLauncher:
    """Has a template server fork the processes; see the protocol above.

    Args:
        socket: Where the server listens already.
    """

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reader_task: asyncio.Task[None] | None = None
        self._starting: dict[int, asyncio.Future[int]] = {}
        self._running: dict[int, PodProcess] = {}
        self._ended_early: dict[int, int] = {}
        self._last_id = 0

    async def start(self, command: PodCommand) -> PodProcess:
        """Start one."""
        try:
            pid = await asyncio.wait_for(self._request(command), START_TIMEOUT_SECONDS)
        except (OSError, TimeoutError) as error:
            why = f"template server at {self._socket}: {error!r}"
            raise LaunchError(command.argv, why) from error
        process = PodProcess(pid)
        self._running[pid] = process
        if pid in self._ended_early:
            self._end(pid, self._ended_early.pop(pid))
        return process

    async def close(self) -> None:
        """Hang up; the server then kills what it has started for us."""
        if self._writer is not None:
            self._writer.close()
        if self._reader_task is not None:
            await self._reader_task

    async def _request(self, command: PodCommand) -> int:
        writer = await self._connected()
        self._last_id += 1
        request = {
            "id": self._last_id,
            "argv": list(command.argv),
            "env": dict(command.env),
            "cwd": str(command.cwd),
            "netns": command.netns,
            "log": str(command.log),
        }
        answered: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._starting[self._last_id] = answered
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
        return await answered

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:
            if self._writer is None:
                reader, self._writer = await asyncio.open_unix_connection(self._socket)
                self._reader_task = asyncio.create_task(self._read(reader))
            return self._writer

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while line := await reader.readline():
                self._hear(json.loads(line))
        except ConnectionResetError:
            pass  # the same as an end: the server is gone
        for answered in self._starting.values():
            if not answered.done():
                answered.set_exception(ConnectionResetError("the template server hung up"))
        self._starting.clear()
        for pid in tuple(self._running):
            self._end(pid, _LOST)
        self._writer = None

    def _hear(self, message: dict[str, Any]) -> None:
        answered = self._starting.pop(message.get("id", 0), None)
        if answered is not None and not answered.done():
            if "pid" in message:
                answered.set_result(int(message["pid"]))
            else:
                answered.set_exception(ConnectionError(str(message.get("error"))))
        elif "status" in message:
            self._end(int(message["pid"]), int(message["status"]))

    def _end(self, pid: int, status: int) -> None:
        process = self._running.pop(pid, None)
        if process is None:
            self._ended_early[pid] = status  # the end overtook the waking of whoever started it
        else:
            process.ended(status)


class PrefixLauncher:
    """Forks what begins with ``prefix`` from a template, starts everything else afresh."""

    def __init__(self, prefix: tuple[str, ...], template: Launcher, otherwise: Launcher) -> None:
        self._prefix = prefix
        self._template = template
        self._otherwise = otherwise

    async def start(self, command: PodCommand) -> PodProcess:
        """Start one."""
        fits = command.argv[: len(self._prefix)] == self._prefix
        return await (self._template if fits else self._otherwise).start(command)

    async def close(self) -> None:
        """Close both."""
        await self._template.close()
        await self._otherwise.close()
