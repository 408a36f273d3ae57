"""One turn of the loop: one optimizer step of the job, on this worker."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from everstep_trainer.library.errors import LoopError
from everstep_trainer.library.wrapping import synchronise_gradients


class Step:
    """The step that this turn of the loop is to do.

    Attributes:
        index: Completed steps before this one, so the first step of a job has index 0. Let it, not
            a counter of the script's own, say what data and what randomness the step uses.
        loss: What `completed` was told; None before.
    """

    def __init__(
        self,
        index: int,
        batches: tuple[Any, ...],
        modules: tuple[nn.Module, ...],
        on_completed: Callable[[float], None],
        check: Callable[[], None],
    ) -> None:
        self.index = index
        self.loss: torch.Tensor | float | None = None
        self._batches = batches
        self._modules = modules
        self._on_completed = on_completed
        self._check = check
        self._begun_at = time.monotonic()
        self._taken = 0
        self._loss_sum: torch.Tensor | None = None
        self._is_completed = False

    def __repr__(self) -> str:
        done = f"{self._taken} of {len(self._batches)} micro-batches taken"
        return f"<Step {self.index}: {'completed' if self._is_completed else done}>"

    @property
    def micro_batches(self) -> Iterator[Any]:
        """This rank's micro-batches, in order; the last one's backward averages over the ranks."""
        self._taken = 0
        for number, batch in enumerate(self._batches, start=1):
            last = number == len(self._batches)
            for module in self._modules:
                synchronise_gradients(module, enabled=last)
            self._taken = number
            yield batch

    @property
    def is_ready(self) -> bool:
        """Whether gradients of all micro-batches are there, so that the optimizers may step."""
        return not self._is_completed and self._taken == len(self._batches)

    def backward(self, loss: torch.Tensor) -> torch.Tensor:
        """Add the gradients of one micro-batch, weighted by the number of micro-batches.

        Returns:
            The mean loss of the turn's micro-batches so far, detached: after the last one, the
            loss of the step on this rank.

        Raises:
            GenerationEnded: An order came meanwhile; a backward would be for nothing.
        """
        self._check()
        many = len(self._batches) > 1
        torch.autograd.backward(loss / len(self._batches) if many else loss)
        seen = loss.detach()
        self._loss_sum = seen if self._loss_sum is None else self._loss_sum + seen
        return self._loss_sum / max(1, self._taken) if many else self._loss_sum

    def completed(self, loss: torch.Tensor | float | None = None) -> None:
        """Say that the optimizers have stepped and all that follows them is done.

        The beginning of the next turn says it as well, but later: until then an interruption would
        have to guess what was still to come.
        """
        if self._is_completed:
            return
        self._is_completed = True
        self.loss = loss
        self._on_completed(time.monotonic() - self._begun_at)

    def due(self, *, every: int) -> bool:
        """Whether something that is done every so many steps is to be done after this one."""
        if every < 1:
            raise LoopError(f"a step is due every {every} steps: at least 1 is needed")
        return (self.index + 1) % every == 0
