"""Works whose every wait an ending interrupts.

A wait is made of ordinary waits of gloo's own work, one slice long each, with a look at the flag in
between. A work that completes wakes its waiter at once and costs nothing more; a waiter that gloo
forgets (it does not wake who was in the middle of a transfer when the connection died) is let go
within a slice. On a CPU a slice that runs out has no side effect on the work or on its group.
"""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist

from everstep_trainer.backend.ending import SLICE, Ending
from everstep_trainer.backend.errors import CollectiveFailedError

UNLIMITED: Final = timedelta(0)
"""What torch passes for "as long as the group allows"."""

GRACE: Final = timedelta(seconds=5)
"""Left to gloo to report its own timeout, with its better message, before the wait gives up."""


class InterruptibleWork(dist.Work):
    """One work of gloo, waited for in slices.

    Args:
        name: Of the collective, for messages.
        work: gloo's; it must be an ordinary one, which completes without being waited for.
        ending: Of the generation it belongs to.
        limit: How long a wait may take in all when its caller does not say.
        finish: What is left to do once gloo is done, by whoever sees that first; its result is
            the work's.
    """

    def __init__(
        self,
        name: str,
        work: dist.Work,
        ending: Ending,
        *,
        limit: timedelta,
        finish: Callable[[], list[torch.Tensor]] | None = None,
    ) -> None:
        super().__init__()
        self._name = name
        self._work = work
        self._ending = ending
        self._limit = limit + GRACE
        self._finish = finish
        self._finishing = threading.Lock()
        self._outputs: list[torch.Tensor] | None = None

    def wait(self, timeout: timedelta = UNLIMITED) -> bool:
        """Wait until the collective is complete.

        Raises:
            GenerationEnded: The generation ended before.
            CollectiveFailedError: gloo failed, or ``timeout`` or the group's own limit is over.
        """
        limit = timeout or self._limit
        given_up_at = time.monotonic() + limit.total_seconds()
        while not self._completes_in_a_slice():
            if time.monotonic() > given_up_at:
                late = CollectiveFailedError(self._name, f"not complete after {limit}")
                raise self._ending.note(late)
        self._ending.check()
        self._finish_once()
        return True

    def get_future(self) -> "torch.futures.Future[Any]":
        """A future for callers in C++ (DDP's reducer): over with the work or the generation."""
        ending = self._ending
        ours: torch.futures.Future[Any] = torch.futures.Future()
        ending.promise(ours)

        def take_over(inner: "torch.futures.Future[Any]") -> None:
            if ending.claim(ours):
                ours.set_result(self._outcome(inner))

        def unwrap(future: "torch.futures.Future[Any]") -> Any:
            # only what a `then` raises is an error in C++ as well: `set_exception` is a value there
            value = future.value()
            ending.check()
            if isinstance(value, CollectiveFailedError):
                raise value
            self._finish_once()
            return value if self._outputs is None else self._outputs

        self._work.get_future().add_done_callback(take_over)
        return ours.then(unwrap)

    def is_completed(self) -> bool:
        """Whether a wait would return or raise without waiting."""
        if self._ending.reason is not None:
            return True
        if not self._work.is_completed():
            return False
        if self._work.is_success():
            self._finish_once()
        return True

    def is_success(self) -> bool:
        return self._work.is_completed() and self._work.is_success()

    def exception(self) -> Any:
        return self._work.exception()

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[torch.Tensor]:
        return self._work.result() if self._outputs is None else self._outputs

    def _completes_in_a_slice(self) -> bool:
        self._ending.check()
        try:
            self._work.wait(SLICE)
        except RuntimeError as error:
            if not self._work.is_completed():
                return False
            if self._work.exception() is not None:  # else it succeeded just after the slice
                self._ending.check(error)
                raise self._failure(error) from error
        return True

    def _outcome(self, inner: "torch.futures.Future[Any]") -> Any:
        try:
            return inner.wait()
        except RuntimeError as error:
            return self._failure(error)

    def _failure(self, error: RuntimeError) -> CollectiveFailedError:
        detail = str(error).partition("\n")[0].partition(". This is typically")[0]
        peers = self._ending.ranks_named_in(detail)
        return self._ending.note(CollectiveFailedError(self._name, detail, peer_ranks=peers))

    def _finish_once(self) -> None:
        if self._finish is None:
            return
        with self._finishing:
            if self._outputs is None:
                self._outputs = self._finish()


class InterruptibleWorks(dist.Work):
    """Several works as one: what the coalesced collectives return."""

    def __init__(self, works: Sequence[InterruptibleWork]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = UNLIMITED) -> bool:
        return all(work.wait(timeout) for work in self._works)

    def get_future(self) -> "torch.futures.Future[Any]":
        return torch.futures.collect_all([work.get_future() for work in self._works])

    def is_completed(self) -> bool:
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def exception(self) -> Any:
        return next((e for e in (work.exception() for work in self._works) if e), None)

    def synchronize(self) -> None:
        self.wait()

    def result(self) -> list[torch.Tensor]:
        return [tensor for work in self._works for tensor in work.result()]
