"""What one worker process keeps, whatever the generation."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch

from everstep_trainer.backend import BACKEND, Ending, nccl
from everstep_trainer.library.copying import Copier, CpuCopier, CudaCopier
from everstep_trainer.library.errors import LaunchError
from everstep_trainer.library.loaders import BatchSource, Loader
from everstep_trainer.library.state import JobState
from everstep_trainer.link import ToAgent
from everstep_trainer.page import Page
from everstep_trainer.step_log import StepLog

log = logging.getLogger("everstep")

VOUCH_POLL_SECONDS: Final = 0.005
SILENCE_WORTH_A_WORD: Final = 400
"""Polls without an answer, two seconds, after which that is worth a line in the log."""


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

    def copier(self) -> Copier:
        """What copies this device's tensors into snapshots."""
        return CudaCopier(self.device) if self.device.type == "cuda" else CpuCopier()

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
        step_log: StepLog | None = None,
    ) -> None:
        self.page = page
        self.state = state
        self.tell = tell
        self.collectives = collectives
        self.step_log = step_log
        self._source = BatchSource(None)

    def wait_for_agent(self, is_enough: Callable[[int], bool], ending: Ending) -> bool:
        """Wait until what the agent vouches for is enough, or the generation ends.

        Nothing is waited for in a step of a member that runs: the agent's word is on the page. A
        process that was stopped for a while cannot tell that it was; the age of that word can.

        Returns:
            Whether it waited.
        """
        waits = 0
        while ending.reason is None and not is_enough(self.page.vouched(time.monotonic_ns())):
            waits += 1
            if waits == SILENCE_WORTH_A_WORD:
                log.warning("not stepping: the agent does not say whether this member still counts")
            time.sleep(VOUCH_POLL_SECONDS)
        return waits > 0

    def source_of(self, loader: Loader) -> BatchSource:
        """The batches of a loader, going on where the last generation was if it is the same one."""
        if self._source.loader is not loader:
            self._source = BatchSource(loader)
        return self._source
