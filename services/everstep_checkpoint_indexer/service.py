"""The loop: lead, gather prepared shards, commit what is complete, read it back, delete the old."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import structlog
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus, Proven
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.checkpoint_queries import ListCheckpoints, PinCheckpoint, PruneCheckpoints
from everstep_contract.facts.checkpoint import CheckpointDamaged, SaveFailed, ShardPrepared
from everstep_contract.layout import CHECKPOINTS, EVENTS, Consumer
from everstep_contract.queries import LatestCheckpoint
from everstep_runtime.health import Readiness
from everstep_runtime.lease import Lease

from everstep_checkpoint_indexer.keeper import Keeper
from everstep_checkpoint_indexer.model import House

LEASE_NAME: Final = "checkpoint_indexer"
RETRY_SECONDS: Final = 1.0
COMPARE_SECONDS: Final = 60.0
"""How often storage is looked through for imports and for abandoned attempts."""
STANDBY_SECONDS: Final = 5.0
"""How often one that does not lead proves that it could: well within what a proof lasts."""
SHARDS: Final = (subjects.event_filter(ShardPrepared),)
HEARD: Final[tuple[type[Event], ...]] = (ShardPrepared, SaveFailed, CheckpointDamaged)
FACTS: Final = Consumer(
    "checkpoint_indexer",
    EVENTS,
    tuple(subjects.event_filter(heard) for heard in HEARD),
)

log = structlog.get_logger()


async def serve(house: House, readiness: Readiness, *, instance: str) -> None:
    """Keep the checkpoints of all jobs while holding the lease, until cancelled.

    Shards are gathered with and without it, so that whoever takes it over need not begin anew.
    """
    readiness.expect("checkpoints")
    proven = partial(readiness.prove, "checkpoints")
    leading, keeper = asyncio.Event(), Keeper(house)

    async def lead(_: int) -> None:
        leading.set()
        try:
            await _keep(house.bus, keeper, proven)
        finally:
            leading.clear()

    async with asyncio.TaskGroup() as group:
        group.create_task(_stand_by(house.bus, proven, leading))
        group.create_task(_gather(house.bus, keeper))
        lease = Lease(house.bus, house.clock, name=LEASE_NAME, holder=instance)
        group.create_task(lease.lead(lead))


async def _keep(bus: Bus, keeper: Keeper, proven: Proven) -> None:
    await _until_done(keeper.index.rebuild, "index not rebuilt yet")
    keeper.reader.enqueue_unproven()
    answers = keeper.answers
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        await stack.enter_async_context(bus.answer(LatestCheckpoint, answers.latest))
        await stack.enter_async_context(bus.answer(ListCheckpoints, answers.listing))
        await stack.enter_async_context(bus.answer(PinCheckpoint, answers.pin))
        await stack.enter_async_context(bus.answer(PruneCheckpoints, answers.prune))
        group.create_task(keeper.commit_forever())
        group.create_task(keeper.reader.run(keeper.pruner.after))
        group.create_task(_compare(keeper))
        group.create_task(bus.consume(FACTS, keeper.hear, proven=proven))


async def _gather(bus: Bus, keeper: Keeper) -> None:
    """Read all shards from the first that is stored: what a former life had gathered is lost."""
    async for received in bus.facts(SHARDS):
        if isinstance(received.message, ShardPrepared):
            keeper.take(received.message)
        await asyncio.sleep(0)  # a month of facts must not keep the lease from being renewed


async def _compare(keeper: Keeper) -> None:
    while True:
        await asyncio.sleep(COMPARE_SECONDS)
        try:
            await keeper.compare_with_storage()
        except (TransientBusError, OSError) as error:
            log.warning("not compared with storage", why=str(error))


async def _until_done(work: Callable[[], Awaitable[None]], what: str) -> None:
    """Again and again: neither the bus nor storage is away for good."""
    while True:
        try:
            await work()
        except (TransientBusError, OSError) as error:
            log.warning(what, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _stand_by(bus: Bus, proven: Proven, leading: asyncio.Event) -> None:
    """A standby, which consumes nothing, misses nothing as long as it can read."""
    while True:
        try:
            await bus.kv(CHECKPOINTS).entries()
            if not leading.is_set():
                proven()
        except TransientBusError as error:
            log.debug("not proven", error=str(error))
        await asyncio.sleep(STANDBY_SECONDS)
