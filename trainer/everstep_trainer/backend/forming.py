"""Form the groups of a generation, so that an order can end it anywhere (R16)."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, _DistributedBackendOptions

from everstep_trainer.backend import nccl
from everstep_trainer.backend.ending import SLICE, Ending
from everstep_trainer.backend.errors import FormingFailedError, OutOfOrderError, Stage
from everstep_trainer.backend.group import BACKEND, InterruptibleGroup
from everstep_trainer.backend.store import StoreClient
from everstep_trainer.backend.transport import Transport

Result = TypeVar("Result")

MARGIN: Final = timedelta(seconds=2)
"""Left to a blocking call to report its own timeout before it is given up."""

_POLL_PER_RANK_SECONDS: Final = 0.0001
_POLL_LEAST_SECONDS: Final = 0.001


@dataclass(frozen=True, kw_only=True)
class Formation:
    """One worker's place in the generation to form.

    Attributes:
        prefix: Of every key in the store; new for each attempt (R17), so never used twice.
        rank: This worker's, below ``world_size``.
        world_size: Workers of the generation.
        form_timeout: Longest wait for everybody to come to the barrier.
        construct_timeout: Longest that connecting may take once all have come.
        collective_timeout: Longest that one collective may take, as torch's ``timeout``.
        backend: "everstep" (gloo inside) or "nccl".
    """

    prefix: str
    rank: int
    world_size: int
    form_timeout: timedelta = timedelta(seconds=30)
    construct_timeout: timedelta = timedelta(seconds=2)
    collective_timeout: timedelta = timedelta(minutes=30)
    backend: str = BACKEND


class Barrier:
    """Everybody of a group is here, or the ranks that are not.

    One counter in the store, so that a rank's cost does not grow with the group.
    """

    def __init__(self, store: Store, rank: int, world_size: int) -> None:
        self._store = PrefixStore("barrier", store)
        self._rank = rank
        self._world_size = world_size

    def meet(self, ending: Ending, timeout: timedelta, saying: str = "") -> list[str]:
        """Come to the barrier and wait for the others; what each rank said, in rank order.

        Raises:
            GenerationEnded: The generation is over.
            FormingFailedError: Some did not come in time (it names them), or the store was lost.
        """
        return _step(ending, lambda: self._wait(ending, timeout, saying), "barrier", timeout)

    def _wait(self, ending: Ending, timeout: timedelta, saying: str) -> list[str]:
        """Poll: a wait inside the store would make it useless to whoever interrupts it."""
        store, ranks = self._store, range(self._world_size)
        deadline = time.monotonic() + timeout.total_seconds()
        pause_seconds = _POLL_LEAST_SECONDS + _POLL_PER_RANK_SECONDS * self._world_size
        store.set(_said(self._rank), saying)
        if store.add("arrived", 1) == self._world_size:
            store.set("complete", "yes")
        while not store.check(["complete"]):
            ending.check()
            if time.monotonic() > deadline:
                missing = [rank for rank in ranks if not store.check([_said(rank)])]
                detail = f"ranks {missing} of {self._world_size} did not come within {timeout}"
                raise FormingFailedError("barrier", detail, missing=missing)
            time.sleep(min(pause_seconds, SLICE.total_seconds()))
        return [said.decode() for said in store.multi_get([_said(rank) for rank in ranks])]


def _said(rank: int) -> str:
    return f"said/{rank}"


def form(client: StoreClient, formation: Formation, ending: Ending) -> None:
    """Meet the others and make the default group; afterwards ``torch.distributed`` is ready.

    Call it on the thread that trains, once a generation. Whatever it raises, ``leave`` comes next.

    Raises:
        GenerationEnded: The generation ended, two slices ago at the latest.
        FormingFailedError: Somebody did not come or could not be reached, or the store was lost.
        TransportError: On this platform gloo's connections cannot be cut.
    """
    ending.on_abandon(client.cut)
    patience = formation.construct_timeout
    transport = ending.transport = _step(ending, lambda: Transport(patience), "device", patience)
    ending.on_end(transport.cut)
    ending.on_abandon(transport.cut)
    store = PrefixStore(formation.prefix, client.store)
    barrier = Barrier(store, formation.rank, formation.world_size)
    transport.know(barrier.meet(ending, formation.form_timeout, transport.addresses[0][0]))
    if formation.backend == nccl.BACKEND:
        ending.on_end(nccl.abort_groups)
    hook = sys.excepthook
    dist.init_process_group(
        formation.backend,
        store=store,
        rank=formation.rank,
        world_size=formation.world_size,
        timeout=formation.collective_timeout,
    )
    sys.excepthook = hook  # torch wraps it once more for each group it is the default of


def make_group(options: _DistributedBackendOptions, ending: Ending) -> InterruptibleGroup:
    """Connect one group of the generation: what torch calls for the default one and any other.

    Raises:
        GenerationEnded, FormingFailedError: As ``form`` does.
    """
    transport = ending.transport
    if transport is None:
        raise OutOfOrderError("torch was asked for a group before the generation was formed")
    store, rank, size = options.store, options.group_rank, options.group_size
    if options.global_ranks_in_group:  # of the default group, which is not named, all have met
        Barrier(store, rank, size).meet(ending, options.timeout)
    gloo = _step(
        ending,
        lambda: transport.connect(store, rank, size),
        "group",
        transport.construct_timeout * size,
    )
    ending.keep(gloo)
    return InterruptibleGroup(gloo, store, ending, options.timeout)


def _step(ending: Ending, call: Callable[[], Result], stage: Stage, limit: timedelta) -> Result:
    """One blocking step of forming, with its failure told in our words."""
    try:
        return ending.run(call, stage, limit + MARGIN)
    except (RuntimeError, TimeoutError) as error:
        raise FormingFailedError(stage, str(error).partition("\n")[0]) from error
