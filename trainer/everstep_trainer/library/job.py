"""The job, from the script's side: one membership after the other until training is over."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from datetime import timedelta
from typing import Final

from everstep_contract.base import MAX_TEXT

from everstep_trainer import backend
from everstep_trainer.backend import Ending, Formation, StoreClients, StoreUnreachableError
from everstep_trainer.backend.store import KEPT
from everstep_trainer.library.environment import foreign_place, set_place
from everstep_trainer.library.errors import LoopError
from everstep_trainer.library.generation import Generation
from everstep_trainer.library.orders import Orders
from everstep_trainer.library.outcome import Broken, Done, Ended, Outcome, judge
from everstep_trainer.library.worker import Worker
from everstep_trainer.link import Assignment, Failed, Finish, Finished, Left, Parked, ToWorker

log = logging.getLogger("everstep")

ORDER_GRACE: Final = timedelta(hours=1)
"""Longest wait for an order after a failure. Long, because the state in this process may be the
job's newest and whoever decides may be away; an agent that is cut off for good ends its workers
much earlier (R24)."""


GenerationCallback = Callable[[Generation], object]


class Job:
    """What `join` returns: this worker's part in a job.

    Args:
        worker: This process.
        orders: What the agent says.
        environ: Where each generation's torchrun variables are set.
        grace: Longest wait for an order after a failure; zero where none can come.
    """

    def __init__(
        self,
        worker: Worker,
        orders: Orders,
        environ: MutableMapping[str, str],
        grace: timedelta = ORDER_GRACE,
    ) -> None:
        self._worker = worker
        self._orders = orders
        self._environ = environ
        self._grace = grace
        self._stores = StoreClients()
        self._callbacks: list[GenerationCallback] = []
        self._left_generation = 0
        self._is_begun = False
        self._is_finished = False

    def __repr__(self) -> str:
        return f"Job(generation={self._orders.generation}, step={self._worker.state.step})"

    @property
    def finished(self) -> bool:
        """Whether training reached its end; False while it runs, and if it was told to stop."""
        return self._is_finished

    def on_generation(self, callback: GenerationCallback) -> GenerationCallback:
        """Have ``callback`` called with each generation once it is formed, before its block.

        For what follows the rank: a new rank 0 opens its logger, say. The state is not agreed on
        yet, so it is no place to look at the model.
        """
        self._callbacks.append(callback)
        return callback

    def generations(self) -> Iterator[Generation]:
        """One `Generation` for each membership, until training is over or the job is stopped.

        It ends in both cases; `finished` tells them apart. Between two of them this waits, with all
        state kept, for as long as the job holds.

        Raises:
            AgentGoneError: The agent ended.
            LoopError: A generation was not used in a ``with`` block, or this is not the first call.
        """
        if self._is_begun:
            raise LoopError("a job's generations are gone through once")
        self._is_begun = True
        order = self._next_assignment(self._orders.take())
        try:
            while order is not None:
                ending = self._begin(order)
                formed = self._form(order, ending)
                if isinstance(formed, Generation):
                    yield formed
                    outcome = _outcome_of(formed)
                else:
                    outcome = formed
                if isinstance(outcome, Done):
                    self._is_finished = True
                    self._worker.tell(Finished(step=self._worker.state.step))
                    return
                if isinstance(outcome, Broken):
                    self._report(outcome, order, while_forming=outcome is formed)
                    ending.end("it broke")  # those who wait for this worker learn it, too
                newer = self._leave(order, outcome)
                if isinstance(formed, Generation) and not isinstance(newer, Assignment):
                    formed.save_what_is_left(self._orders.has_news)
                order = self._next_assignment(newer)
        finally:
            self._orders.watch(None)
            backend.leave()

    def _next_assignment(self, order: ToWorker | None) -> Assignment | None:
        """The next membership to form; None when there will be none."""
        while not isinstance(order, Assignment):
            if isinstance(order, Finish):
                log.info("told to finish: %s", order.reason)
                return None
            self._enter_phase("parked")
            version = self._worker.state.version
            self._worker.tell(Parked(generation=self._orders.generation, version=version))
            order = self._orders.wait()
        return order

    def _begin(self, order: Assignment) -> Ending:
        """Begin a generation, so that from here on the next order ends it anywhere (R16)."""
        ending = backend.begin(order.generation)
        self._orders.watch(ending)
        self._enter_phase("form")
        self._worker.tell(
            Left(
                generation=order.generation,
                left_generation=self._left_generation,
                version=self._worker.state.version,
            )
        )
        return ending

    def _form(self, order: Assignment, ending: Ending) -> Generation | Outcome:
        """The formed generation, or why there is none."""
        try:
            client = self._stores.get(order.store.host, order.store.port, ending)
            backend.form(client, self._formation(order), ending)
            self._take_place(order)
            self._know_stores(order)
            generation = Generation(order, ending, self._worker)
            for callback in self._callbacks:
                callback(generation)
        except BaseException as error:
            outcome = judge(error, ending)
            if outcome is None:
                raise
            return outcome
        return generation

    def _formation(self, order: Assignment) -> Formation:
        return Formation(
            prefix=order.store_prefix,
            rank=order.rank,
            world_size=order.world_size,
            form_timeout=timedelta(seconds=order.form_seconds),
            construct_timeout=timedelta(seconds=order.construct_seconds),
            backend=self._worker.collectives.backend,
        )

    def _take_place(self, order: Assignment) -> None:
        """Tell the script its place the way torchrun does, and once what it must not believe."""
        if self._left_generation == 0:
            foreign = foreign_place(self._environ, order)
            if foreign:
                log.warning("the scheduler's view of the job is not used: %s", foreign)
        set_place(self._environ, order)

    def _know_stores(self, order: Assignment) -> None:
        """Connect to where the next generation may have to meet, while there is time (R17)."""
        others = [store for store in order.stores if store != order.store][: KEPT - 1]

        def connect() -> None:
            for store in others:
                with contextlib.suppress(StoreUnreachableError):
                    self._stores.connect(store.host, store.port)

        threading.Thread(target=connect, name="everstep stores", daemon=True).start()

    def _report(self, broken: Broken, order: Assignment, *, while_forming: bool) -> None:
        log.warning("generation %d broke: %s", order.generation, broken.cause)
        self._worker.tell(
            Failed(
                generation=order.generation,
                verdict_id=order.verdict_id,
                while_forming=while_forming,
                peer_ranks=broken.peer_ranks,
                detail=str(broken.cause)[:MAX_TEXT],
            )
        )

    def _leave(self, order: Assignment, outcome: Ended | Broken) -> ToWorker | None:
        """Leave the group; the order that ended it, or the first that comes after it broke."""
        backend.leave(outcome.error)
        self._left_generation = order.generation
        if not isinstance(outcome, Broken):
            return self._orders.take()
        self._enter_phase("parked")
        newer = self._orders.wait(self._grace.total_seconds())
        if newer is None:
            raise outcome.error
        return newer

    def _enter_phase(self, phase: str) -> None:
        self._worker.page.enter_phase(phase, time.monotonic_ns())


def _outcome_of(generation: Generation) -> Outcome:
    if generation.outcome is None:
        raise LoopError("use each generation in a `with generation:` block")
    return generation.outcome
