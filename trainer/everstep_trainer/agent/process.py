"""What a new process must do before it runs anything else, and whether it may be forked at all."""

import ctypes
import os
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_LIBC = ctypes.CDLL(None, use_errno=True)
_FIRST_PRIVATE_FD: Final = 3
_FIRST_NICENESS: Final = -10


def die_with(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends, however it ends.

    A parent that ended before the kernel knew of the wish has left us to another one: then this
    process ends here.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        os._exit(1)


def go_first() -> None:
    """Be scheduled before the workers, if we may: who answers a ping late is taken for silent.

    On two cores with a load of 30, waking took 13 ms instead of 30 ms in the median, and 60 to
    90 ms instead of 180 to 330 ms at worst. It needs a privilege that few pods have.
    """
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST_NICENESS)


def name_process(name: str) -> None:
    """What `ps` and `top` call this process; the kernel keeps 15 bytes."""
    _LIBC.prctl(_PR_SET_NAME, name.encode(), 0, 0, 0)


def close_descriptors(keep: Collection[int]) -> None:
    """Close everything inherited but the standard streams and ``keep``."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if descriptor >= _FIRST_PRIVATE_FD and descriptor not in keep:
            with suppress(OSError):  # the listing's own descriptor
                os.close(descriptor)


def why_not_fork() -> str:
    """Why a child of this process would not be sound; empty if it would be.

    Only the forking thread lives on in a child, and a CUDA context does not survive a fork.
    """
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        return f"{threads} threads"
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA is initialised"
    return ""


def flush_streams() -> None:
    """Write out what Python and C have buffered, so that no child repeats it."""
    sys.stdout.flush()
    sys.stderr.flush()
    _LIBC.fflush(None)
