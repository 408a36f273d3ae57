"""How much memory may still be taken: by the machine, and by the container's limit."""

from pathlib import Path
from typing import Final

import psutil

from everstep_checkpoint.errors import NoRoomError

GIB: Final = 1 << 30
_LIMITS: Final = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)
"""A container sees its own group there: version 2 of control groups, then version 1."""
_RECLAIMABLE: Final = "inactive_file"


def available_bytes() -> int:
    """What a process here may still touch without being killed for it."""
    found = [int(psutil.virtual_memory().available)]
    for limit, usage in _LIMITS:
        try:
            most, used = limit.read_text().strip(), int(usage.read_text())
            if most != "max":
                found.append(int(most) - used + _reclaimable(limit.parent))
        except (OSError, ValueError):  # no such version, or no limit that is a number
            continue
    return max(0, min(found))


def require_room(total_bytes: int) -> None:
    """Refuse before the kernel kills somebody.

    Raises:
        NoRoomError: There is less.
    """
    available = available_bytes()
    if total_bytes > available:
        raise NoRoomError(total_bytes, available)


def _reclaimable(group: Path) -> int:
    """The page cache of the group counts as used, and is given up when memory is needed."""
    for line in (group / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == _RECLAIMABLE:
            return int(value)
    return 0
