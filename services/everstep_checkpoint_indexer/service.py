"""The loop: gather prepared shards, commit what is complete, answer which is the latest."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import structlog
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus, Received
from everstep_checkpoint.errors import StorageFullError
from everstep_checkpoint.storage import Storage
from everstep_contract import subjects
from everstep_contract.errors import EverstepError
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.layout import EVENTS, Consumer
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply
from everstep_runtime.health import Readiness

from everstep_checkpoint_indexer.decide import gather, is_possible
from everstep_checkpoint_indexer.enact import Index
from everstep_checkpoint_indexer.metrics import PENDING
from everstep_checkpoint_indexer.model import Complete, Gathering

RETRY_SECONDS: Final = 1.0
SHARDS: Final = Consumer("checkpoint_indexer", EVENTS, (subjects.event_filter(ShardPrepared),))

log = structlog.get_logger()


class ImpossibleShardError(EverstepError):
    """A shard that is none of its checkpoint's, or lies in no file that a shard can lie in."""

    def __init__(self, fact: ShardPrepared) -> None:
        place = f"shard {fact.shard} of {fact.shards} of {fact.checkpoint!r}"
        super().__init__(f"{place}, file {fact.path!r}")


async def serve(bus: Bus, readiness: Readiness, storage: Storage) -> None:
    """Commit and index the checkpoints of all jobs, until cancelled."""
    readiness.expect("checkpoints")
    index = Index(bus, storage)

    async def answer(query: LatestCheckpoint) -> LatestCheckpointReply:
        return LatestCheckpointReply(record=await index.latest(query.job))

    async with bus.answer(LatestCheckpoint, answer), asyncio.TaskGroup() as group:
        group.create_task(_gather(bus, index))
        proven = partial(readiness.prove, "checkpoints")
        group.create_task(bus.consume(SHARDS, _inspect, proven=proven))


async def _gather(bus: Bus, index: Index) -> None:
    """Read all shards from the first that is stored: what a former life had gathered is lost."""
    await _until_done(index.rebuild, "index not rebuilt yet")
    gathering = Gathering()
    async for received in bus.facts(SHARDS.filters):
        fact = received.message
        if isinstance(fact, ShardPrepared) and is_possible(fact):
            gathering, complete = gather(gathering, fact)
            PENDING.set(len(gathering.pending))
            if complete is not None:
                await _commit(index, complete)


async def _commit(index: Index, complete: Complete) -> None:
    what = f"{complete.attempt.checkpoint} not committed yet"
    await _until_done(partial(index.commit, complete), what)


async def _until_done(work: Callable[[], Awaitable[None]], what: str) -> None:
    """Again and again: neither the bus nor storage is away for good."""
    while True:
        try:
            await work()
        except (TransientBusError, StorageFullError, OSError) as error:
            log.warning(what, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _inspect(received: Received) -> None:
    """Send to DEAD what no checkpoint can be made of."""
    fact = received.message
    if isinstance(fact, ShardPrepared) and not is_possible(fact):
        raise ImpossibleShardError(fact)
