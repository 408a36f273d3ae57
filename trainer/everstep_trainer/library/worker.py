"""What one worker process keeps, whatever the generation."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from everstep_trainer.backend import BACKEND, nccl
from everstep_trainer.library.errors import LaunchError
from everstep_trainer.library.loaders import BatchSource, Loader
from everstep_trainer.library.state import JobState
from everstep_trainer.link import ToAgent
from everstep_trainer.page import Page


@dataclass(frozen=True)
class Collectives:
    """Which backend connects the workers, and the device that its tensors live on."""

    backend: str
    device: torch.device

    @classmethod
    def choose(cls, backend: str | None, local_rank: int) -> "Collectives":
        """As asked for, else what this machine's devices need; makes the GPU the current one.

        Raises:
            LaunchError: There is no such backend, or no GPU of this number for it.
        """
        chosen = backend or (nccl.BACKEND if torch.cuda.is_available() else BACKEND)
        if chosen == BACKEND:
            return cls(BACKEND, torch.device("cpu"))
        if chosen != nccl.BACKEND:
            raise LaunchError(f"backend {chosen!r} is neither {BACKEND!r} nor {nccl.BACKEND!r}")
        if local_rank >= torch.cuda.device_count():
            raise LaunchError(
                f"local rank {local_rank} has no GPU of its own: there are "
                f"{torch.cuda.device_count()}"
            )
        device = torch.device("cuda", local_rank)
        torch.cuda.set_device(device)
        return cls(nccl.BACKEND, device)

    def finish(self) -> None:
        """Wait until the device has done all that was asked of it; a CPU has."""
        if self.device.type == "cuda":
            torch.cuda.current_stream(self.device).synchronize()


class Worker:
    """This process: its state, its page, its way to its agent, and its place in the data."""

    def __init__(
        self,
        page: Page,
        state: JobState,
        tell: Callable[[ToAgent], None],
        collectives: Collectives,
    ) -> None:
        self.page = page
        self.state = state
        self.tell = tell
        self.collectives = collectives
        self._source = BatchSource(None)

    def source_of(self, loader: Loader) -> BatchSource:
        """The batches of a loader, going on where the last generation was if it is the same one."""
        if self._source.loader is not loader:
            self._source = BatchSource(loader)
        return self._source
