"""What a drill left behind on the machine after everything was taken down."""

from pathlib import Path
from typing import Final

from everstep_cli.drill.document import Leftovers
from everstep_cli.drill.processes import left_behind

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108  # looked at, never written
OURS: Final = ("everstep", "torch_")
"""What files of Everstep or of torch in shared memory are called."""


def shared_memory_files() -> frozenset[str]:
    """Names of files in shared memory that could be a drill's; none where there is none."""
    if not SHARED_MEMORY.is_dir():
        return frozenset()
    return frozenset(path.name for path in SHARED_MEMORY.iterdir() if path.name.startswith(OURS))


async def leftovers(mark: str, before: frozenset[str]) -> Leftovers:
    """What is there now and was not ``before``; processes are found by their mark, and ended."""
    processes = await left_behind(mark)
    files = shared_memory_files() - before
    return Leftovers(processes=len(processes), shared_memory_files=len(files))
