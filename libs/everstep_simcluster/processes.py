"""All processes of a node: whatever lives in its sessions or its network, or descends from them."""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil

_KILL_ROUNDS = 20
"""How often to look again for children that were born while their parents were being killed."""


def members_of(leaders: Iterable[int], netns: str | None = None) -> set[int]:
    """Ids of living processes in the sessions of ``leaders`` or in the network namespace.

    The namespace finds everything, whoever its parent is. Without one (None), a descendant that
    made a session of its own and has lost its parent is missed.
    """
    leading = set(leaders)
    inode = _inode(Path(netns)) if netns else None
    found = {pid for pid in psutil.pids() if _session(pid) in leading or _lives_in(pid, inode)}
    for leader in leading if inode is None else ():
        with suppress(psutil.Error):
            found |= {child.pid for child in psutil.Process(leader).children(recursive=True)}
    return {pid for pid in found - {os.getpid()} if not _is_zombie(pid)}


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    """Send ``number`` to each that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_all(leaders: Iterable[int], netns: str | None = None) -> set[int]:
    """SIGKILL every member until nobody new turns up; returns whom, some of whom may be dying.

    All are stopped first: on a machine that dies nobody lives long enough to tell of another's end.
    """
    leading, killed = tuple(leaders), set[int]()
    for _ in range(_KILL_ROUNDS):
        alive = members_of(leading, netns) - killed
        if not alive:
            break
        signal_all(alive, signal.SIGSTOP)
        signal_all(alive, signal.SIGKILL)
        killed |= alive
    return killed


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def _lives_in(pid: int, inode: int | None) -> bool:
    return inode is not None and _inode(Path(f"/proc/{pid}/ns/net")) == inode


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None


def _is_zombie(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True
