"""The one flag that all groups of a generation look at, and what happens when it is raised."""

import concurrent.futures
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist

from everstep_trainer.backend.errors import CollectiveFailedError, GenerationEnded
from everstep_trainer.backend.transport import Transport

SLICE: Final = timedelta(milliseconds=20)
"""Longest that anything here waits without a look at the flag. A wait that completes is woken by
torch, so shorter slices would cost more and gain nothing but the time to notice an order."""

Result = TypeVar("Result")


class Ending:
    """What ends together: the groups of one generation, their waits, and its unfinished forming.

    Made by ``begin``. ``end`` may be called from any thread; everything else that is public is
    either safe from any thread or says otherwise. Keep it until ``settled``: it holds what torch
    must not destroy yet.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._failure: CollectiveFailedError | None = None
        self._on_end: list[Callable[[], object]] = []
        self._on_abandon: list[Callable[[], object]] = []
        self._unfinished: deque[dist.Work] = deque()
        self._pending: dict[int, torch.futures.Future[object]] = {}
        self._errands: list[concurrent.futures.Future[Any]] = []
        self._kept: list[object] = []
        self.transport: Transport | None = None  # made by the first step of forming

    @property
    def reason(self) -> str | None:
        """Why the generation ended; None while it lasts."""
        return self._reason

    @property
    def failure(self) -> CollectiveFailedError | None:
        """The first collective that broke before the generation ended, if one did.

        What the script sees of it may have lost its type on the way through C++.
        """
        return self._failure

    def note(self, failure: CollectiveFailedError) -> CollectiveFailedError:
        """Remember the first failure; returns the one given, to be raised."""
        with self._lock:
            if self._failure is None and self._reason is None:
                self._failure = failure
        return failure

    def end(self, reason: str) -> bool:
        """End the generation: nothing in it waits for longer than a slice from here.

        Returns:
            Whether this call did it. Only the first has an effect, and its reason stands.
        """
        with self._lock:
            if self._reason is not None:
                return False
            self._reason = reason
            pending, self._pending = list(self._pending.values()), {}
            actions, self._on_end = self._on_end, []
        for future in pending:
            future.set_result(None)
        with contextlib.ExitStack() as stack:  # runs all of them, whichever fails
            for action in actions:
                stack.callback(action)
        return True

    def check(self, cause: BaseException | None = None) -> None:
        """Return while the generation lasts.

        Raises:
            GenerationEnded: It is over. ``cause`` is what was seen of it.
        """
        if self._reason is not None:
            raise GenerationEnded(self.generation, self._reason) from cause

    def on_end(self, action: Callable[[], object]) -> None:
        """Have ``action`` run by ``end``, in its thread; at once if the generation is over."""
        with self._lock:
            if self._reason is None:
                self._on_end.append(action)
                return
        action()

    def on_abandon(self, action: Callable[[], object]) -> None:
        """Have ``action`` run when a blocking call is left behind: it should make that return."""
        with self._lock:
            self._on_abandon.append(action)

    def run(self, call: Callable[[], Result], what: str, limit: timedelta) -> Result:
        """Make a blocking call that an ending interrupts, on a thread of its own.

        Whatever ``call`` does is left to finish by itself when it is given up, so it must change
        nothing but its result.

        Raises:
            GenerationEnded: The generation is over; at the latest two slices after ``end``.
            TimeoutError: The call took longer than ``limit``.
        """
        self.check()
        errand = _start(call, f"everstep {what}")
        given_up_at = time.monotonic() + limit.total_seconds()
        while not _finished(errand):
            if self._reason is None and time.monotonic() < given_up_at:
                continue
            if not _finished(errand):  # the flag or the cut may have been enough
                self._abandon(errand)
            self.check()
            raise TimeoutError(f"{what} took longer than {limit.total_seconds():g} s")
        self.check(errand.exception())
        return errand.result()

    def track(self, work: dist.Work) -> None:
        """Remember a work of gloo until it is complete."""
        with self._lock:
            self._unfinished.append(work)
            while self._unfinished and self._unfinished[0].is_completed():
                self._unfinished.popleft()

    def promise(self, future: "torch.futures.Future[object]") -> None:
        """Complete ``future`` when the generation ends, unless it is claimed before."""
        with self._lock:
            if self._reason is None:
                self._pending[id(future)] = future
                return
        future.set_result(None)

    def claim(self, future: "torch.futures.Future[object]") -> bool:
        """Whether the caller is the one to complete a promised future; true only once."""
        with self._lock:
            return self._pending.pop(id(future), None) is not None

    def keep(self, thing: object) -> None:
        """Hold on to something whose destructor waits for works, until ``settled``."""
        with self._lock:
            self._kept.append(thing)

    def ranks_named_in(self, message: str) -> tuple[int, ...]:
        """Ranks of the generation on the node that one of gloo's messages names."""
        return self.transport.ranks_named_in(message) if self.transport else ()

    def settled(self) -> bool:
        """Whether no work and no blocking call is left inside torch: this can be dropped."""
        with self._lock:
            works, errands = list(self._unfinished), list(self._errands)
        return all(work.is_completed() for work in works) and all(e.done() for e in errands)

    def _abandon(self, errand: "concurrent.futures.Future[Result]") -> None:
        with self._lock:
            self._errands.append(errand)
            actions = list(self._on_abandon)
        for action in actions:
            action()


def _start(call: Callable[[], Result], name: str) -> "concurrent.futures.Future[Result]":
    errand: concurrent.futures.Future[Result] = concurrent.futures.Future()

    def body() -> None:
        try:
            errand.set_result(call())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the errand raises it
            errand.set_exception(error)

    threading.Thread(target=body, name=name, daemon=True).start()
    return errand


def _finished(errand: "concurrent.futures.Future[Result]") -> bool:
    """Wait one slice for an errand."""
    return bool(concurrent.futures.wait([errand], SLICE.total_seconds()).done)
