"""What the end of a worker's process means."""

import os
import signal
from pathlib import Path
from typing import Final

from everstep_contract.facts.worker import ExitClass

from everstep_trainer.agent.model import ExitStatus

_MEMORY_EVENTS: Final = Path("/sys/fs/cgroup/memory.events")
_STATE: Final = 0
_EXIT_STATUS: Final = 49
"""Positions in /proc/PID/stat, counted after the name; see proc(5)."""
_BY_OTHERS: Final = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


def classify(code: int | None, signal_number: int | None, *, out_of_memory: bool) -> ExitStatus:
    """The kind of end. A kill for lack of memory is no fault of the node (EC-70).

    A bus error may be the application's (a file cut under its map) or the memory's: unknown.
    """
    return ExitStatus(code, signal_number, _class(code, signal_number, out_of_memory))


def _class(code: int | None, signal_number: int | None, out_of_memory: bool) -> ExitClass:  # noqa: FBT001 - private, and named by its only caller
    if code is not None:
        return "finished" if code == 0 else "application"
    if signal_number == signal.SIGKILL and out_of_memory:
        return "out_of_memory"
    if signal_number in _BY_OTHERS:
        return "killed"
    return "unknown" if signal_number in (None, signal.SIGBUS) else "application"


def failure_of_zombie(pid: int) -> tuple[int | None, int | None]:
    """Code and signal of a process that ended and that its parent has not reaped yet.

    Neither, if it is reaped already, or if it ended well: the kernel says 0 also to those whom it
    does not tell.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None, None
    if fields[_STATE] != "Z" or fields[_EXIT_STATUS] == "0":
        return None, None
    code = os.waitstatus_to_exitcode(int(fields[_EXIT_STATUS]))
    return (code, None) if code >= 0 else (None, -code)


def count_memory_kills(events: Path = _MEMORY_EVENTS) -> int:
    """Processes that the kernel killed in this container for lack of memory; 0 if it cannot say."""
    try:
        lines = events.read_text().splitlines()
    except OSError:
        return 0
    counts = dict(line.split(maxsplit=1) for line in lines if " " in line)
    return int(counts.get("oom_kill", 0))
