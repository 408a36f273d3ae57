"""Processes that the drill starts: each in a session of its own, marked, and all found again."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from everstep_cli.waiting import seen

MARK_VARIABLE: Final = "DRILL_MARK"
"""Inherited by everything that a drill starts, so that what is left behind can be counted."""
STOP_SECONDS: Final = 5.0
"""How long a process may take to end after SIGTERM; then it is killed."""
FAVOURED: Final = -5
"""Niceness of what has machines of its own outside a drill: nats-server and the services."""
GONE_SECONDS: Final = 3.0
"""How long killed processes may take to be gone."""


@dataclass(frozen=True)
class Program:
    """What to start: ``name`` is also its log's; ``variables`` are added to the environment."""

    name: str
    command: Sequence[str]
    variables: Mapping[str, str]


class Processes:
    """The processes of one drill; logs go to ``folder``."""

    def __init__(self, folder: Path, mark: str) -> None:
        self.folder = folder
        self.mark = mark
        self._running: dict[str, asyncio.subprocess.Process] = {}
        folder.mkdir(parents=True, exist_ok=True)

    async def start(self, program: Program) -> int:
        """Start a program; its output goes to ``<name>.log``. Returns its pid."""
        environment = os.environ | program.variables | {MARK_VARIABLE: self.mark}
        with (self.folder / f"{program.name}.log").open("ab") as log:
            started = await asyncio.create_subprocess_exec(
                *_dying_with_us(),
                *program.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._running[program.name] = started
        return started.pid

    def pid(self, name: str) -> int:
        """The pid of a program that was started."""
        return self._running[name].pid

    def ended(self, name: str) -> int | None:
        """The exit status of a program, or None while it runs."""
        return self._running[name].returncode

    def kill_now(self, name: str) -> None:
        """SIGKILL a program's process group, and descendants that left it."""
        pid = self._running[name].pid
        away = descendants(pid)
        _signal_group(pid, signal.SIGKILL)
        for child in away:
            signal_pid(child, signal.SIGKILL)

    async def kill(self, name: str) -> None:
        """SIGKILL a program and all below it, and wait for its first process."""
        self.kill_now(name)
        await self._running[name].wait()

    async def stop(self, name: str) -> None:
        """Ask a program to end, and kill it if it does not."""
        process = self._running.pop(name)
        if process.returncode is None:
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), STOP_SECONDS)
        _signal_group(process.pid, signal.SIGKILL)
        await process.wait()

    async def stop_all(self) -> None:
        """Stop everything, the newest first."""
        for name in reversed(list(self._running)):
            await self.stop(name)


def favour(pid: int) -> None:
    """Let a process, with all its threads, go before what the drill trains; only root may."""
    with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(task.name), FAVOURED)


def _dying_with_us() -> list[str]:
    """What makes the kernel kill a program when the drill itself is killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "KILL", "--"] if setpriv else []


def log_tail(folder: Path, name: str, lines: int = 5) -> str:
    """The last lines that a program wrote."""
    path = folder / f"{name}.log"
    text = path.read_text(errors="replace") if path.exists() else ""
    return "\n".join(text.splitlines()[-lines:])


def marked(mark: str) -> frozenset[int]:
    """Living processes that carry the mark."""
    wanted = f"{MARK_VARIABLE}={mark}".encode()
    return frozenset(pid for pid, environment in _environments() if wanted in environment)


async def left_behind(mark: str) -> frozenset[int]:
    """Marked processes that do not go away by themselves; they are killed then."""
    await seen(lambda: None if marked(mark) else True, within_seconds=GONE_SECONDS)
    there = marked(mark)
    for pid in there:
        signal_pid(pid, signal.SIGKILL)
    return there


def descendants(pid: int) -> frozenset[int]:
    """All living descendants of a process."""
    parents = dict(_parents())
    found: set[int] = set()
    frontier = {pid}
    while frontier:
        frontier = {child for child, parent in parents.items() if parent in frontier} - found
        found |= frontier
    return frozenset(found)


def signal_pid(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that may be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _environments() -> Iterator[tuple[int, list[bytes]]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(folder.name), (folder / "environ").read_bytes().split(b"\0")


def _parents() -> Iterator[tuple[int, int]]:
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield int(folder.name), int(fields[1])
