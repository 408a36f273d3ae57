"""The same ending for NCCL groups, which stay torch's own: libraries test for their name.

Not proven: written against torch's interface on a machine without a GPU. What is tested is which
errors leave a device usable; that aborting frees every rank of a real job is not.

A thread that waits for the device is freed by aborting the communicators, which makes their
kernels return with wrong results: look at ``Ending.check`` before the optimizer may use them.
"""

import os
from typing import Final, Literal

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d

from everstep_trainer.backend.errors import causes

BACKEND: Final = "nccl"

Rung = Literal["reform", "restart_worker"]

_STICKY: Final = (
    "an illegal memory access was encountered",
    "an illegal instruction was encountered",
    "device-side assert triggered",
    "hardware stack error",
    "invalid program counter",
    "misaligned address",
    "operation not supported on global/shared address space",
    "the launch timed out and was terminated",
    "uncorrectable ecc error encountered",
    "uncorrectable nvlink error detected",
    "unspecified launch failure",
)
"""CUDA's texts of errors after which its context refuses everything until the process ends."""


def prepare_environment() -> None:
    """Keep torch's watchdog from ending the process when a communicator is aborted.

    Before the first NCCL group of the process; a script's own choice is overruled.
    """
    os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"


def abort_groups() -> int:
    """Abort every NCCL group of this process, from any thread; the number of groups.

    torch's registry is left as it is, since the training thread is still inside: it leaves itself.
    """
    groups = sorted(distributed_c10d._world.pg_names, key=_name, reverse=True)
    backends = [backend for group in groups if (backend := _nccl(group))]
    if backends:
        backends[0]._group_start()  # or communicators would wait for each other's abort
        for backend in backends:
            backend.abort()
        backends[0]._group_end()
    return len(backends)


def next_rung(error: BaseException) -> Rung:
    """Whether this process can form again after ``error``, or its device refuses everything.

    Any error is looked through to its causes; what is not known to be sticky is taken for a
    collective's, because forming again then shows soon whether that was right.
    """
    texts = [str(each).lower() for each in causes(error)]
    sticky = any(sign in text for text in texts for sign in _STICKY)
    return "restart_worker" if sticky else "reform"


def _name(group: dist.ProcessGroup) -> str:
    return str(distributed_c10d._world.pg_names[group])


def _nccl(group: dist.ProcessGroup) -> "dist.ProcessGroupNCCL | None":
    if not dist.is_nccl_available():
        return None
    try:
        backend = group._get_backend(torch.device("cuda"))
    except RuntimeError:  # a group without this device
        return None
    return backend if isinstance(backend, dist.ProcessGroupNCCL) else None
