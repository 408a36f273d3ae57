"""Copy tensors into memory that outlives the process: from a CPU at once, from a GPU beside it."""

from collections.abc import Iterable
from typing import Any, Final, Protocol

import torch

_DEFAULT_FLAGS: Final = 0
Pair = tuple[torch.Tensor, torch.Tensor]
"""Where to, where from: same shape, same type."""


class Copier(Protocol):
    """Brings tensors into a slot."""

    def prepare(self, memory: torch.Tensor) -> None:
        """Make this memory, just mapped, fit to be copied into."""

    def release(self, memory: torch.Tensor) -> None:
        """It was prepared, and will be unmapped."""

    def copy(self, pairs: Iterable[Pair]) -> None:
        """Copy all; when it returns, every byte is there and the sources may change."""


class CpuCopier:
    """One pass of plain copies."""

    def prepare(self, memory: torch.Tensor) -> None:
        """Nothing: its pages are there."""

    def release(self, memory: torch.Tensor) -> None:
        """Nothing."""

    @torch.no_grad()
    def copy(self, pairs: Iterable[Pair]) -> None:
        """Copy all."""
        for target, source in pairs:
            target.copy_(source)


class CudaCopier:
    """Copies on a stream of its own into pinned memory.

    Not proven on hardware yet. What is small and on the CPU (an
    optimizer's step count) is copied meanwhile.

    Args:
        device: Whose tensors are copied.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's
        self._device = device

    def prepare(self, memory: torch.Tensor) -> None:
        """Pin it, so that the device writes to it by itself.

        Raises:
            RuntimeError: The driver refuses, as where too little memory may be locked.
        """
        runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch's
        status = runtime.cudaHostRegister(memory.data_ptr(), memory.numel(), _DEFAULT_FLAGS)
        torch.cuda.check_error(status)

    def release(self, memory: torch.Tensor) -> None:
        """Unpin it: what is mapped next at these addresses could not be pinned otherwise.

        Raises:
            RuntimeError: The driver refuses.
        """
        runtime: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]  # torch's
        torch.cuda.check_error(runtime.cudaHostUnregister(memory.data_ptr()))

    @torch.no_grad()
    def copy(self, pairs: Iterable[Pair]) -> None:
        """Copy all, after what the current stream was asked for before."""
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            for target, source in pairs:
                target.copy_(source, non_blocking=True)
        self._stream.synchronize()
