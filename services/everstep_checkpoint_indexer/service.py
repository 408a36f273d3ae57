"""The loop: gather prepared shards, commit what is complete, answer which checkpoint is the latest.

Agents write shards where they say; writing a manifest and renaming the folder come with a later
version, so a checkpoint counts as committed when each of its shards was told of as prepared.
"""

import asyncio
from functools import partial
from typing import Final

import structlog
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus, Received
from everstep_contract import subjects
from everstep_contract.errors import EverstepError
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.layout import EVENTS, Consumer
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply
from everstep_contract.record import CheckpointRecord
from everstep_runtime.health import Readiness

from everstep_checkpoint_indexer.decide import gather
from everstep_checkpoint_indexer.enact import Index
from everstep_checkpoint_indexer.metrics import PENDING
from everstep_checkpoint_indexer.model import Gathering

RETRY_SECONDS: Final = 1.0
SHARDS: Final = Consumer("checkpoint_indexer", EVENTS, (subjects.event_filter(ShardPrepared),))

log = structlog.get_logger()


class ImpossibleShardError(EverstepError):
    """A shard that says it is none of its checkpoint's."""

    def __init__(self, fact: ShardPrepared) -> None:
        super().__init__(f"shard {fact.shard} of {fact.shards} of {fact.checkpoint!r}")


async def serve(bus: Bus, readiness: Readiness) -> None:
    """Index the checkpoints of all jobs, until cancelled."""
    readiness.expect("checkpoints")
    index = Index(bus)

    async def answer(query: LatestCheckpoint) -> LatestCheckpointReply:
        return LatestCheckpointReply(record=await index.latest(query.job))

    async with bus.answer(LatestCheckpoint, answer), asyncio.TaskGroup() as group:
        group.create_task(_gather(bus, index))
        proven = partial(readiness.prove, "checkpoints")
        group.create_task(bus.consume(SHARDS, _inspect, proven=proven))


async def _gather(bus: Bus, index: Index) -> None:
    """Read all shards from the first that is stored: what a former life had gathered is lost."""
    gathering = Gathering()
    async for received in bus.facts(SHARDS.filters):
        fact = received.message
        if isinstance(fact, ShardPrepared) and fact.shard < fact.shards:
            gathering, complete = gather(gathering, fact)
            PENDING.set(len(gathering.pending))
            if complete is not None:
                await _commit(index, complete)


async def _commit(index: Index, checkpoint: CheckpointRecord) -> None:
    while True:
        try:
            await index.commit(checkpoint)
        except TransientBusError as error:
            log.warning("not committed yet", checkpoint=checkpoint.checkpoint, error=str(error))
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def _inspect(received: Received) -> None:
    """Send to DEAD what no checkpoint can be made of."""
    fact = received.message
    if isinstance(fact, ShardPrepared) and fact.shard >= fact.shards:
        raise ImpossibleShardError(fact)
