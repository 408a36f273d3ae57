"""Answers what people and tools ask, and does what operators ask for."""

import asyncio
from functools import partial

from everstep_checkpoint.validity import Listed
from everstep_contract.checkpoint_queries import (
    MAX_LISTED,
    CheckpointListing,
    CheckpointPinned,
    ListCheckpoints,
    ListCheckpointsReply,
    PinCheckpoint,
    PruneCheckpoints,
    PruneCheckpointsReply,
)
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply, Refused

from everstep_checkpoint_indexer.enact import Index
from everstep_checkpoint_indexer.model import House
from everstep_checkpoint_indexer.pruning import Pruner


class Answers:
    """One answer a query."""

    def __init__(self, house: House, index: Index, pruner: Pruner) -> None:
        self._house = house
        self._index = index
        self._pruner = pruner

    async def latest(self, query: LatestCheckpoint) -> LatestCheckpointReply:
        """Which checkpoint a job would be restored from."""
        return LatestCheckpointReply(record=await self._index.latest(query.job))

    async def listing(self, query: ListCheckpoints) -> ListCheckpointsReply:
        """What there is."""
        found = await self._index.listing(query.job)
        rows = [CheckpointListing(record=one, standing=word) for one, word in found[:MAX_LISTED]]
        return ListCheckpointsReply(checkpoints=tuple(rows), omitted=len(found) - len(rows))

    async def pin(self, query: PinCheckpoint) -> CheckpointPinned | Refused:
        """Keep a checkpoint, or no longer; what is pinned is not being deleted just then."""
        async with self._index.changing:
            return await self._pin(query)

    async def _pin(self, query: PinCheckpoint) -> CheckpointPinned | Refused:
        found = self._index.find(query.job, query.checkpoint, query.lineage)
        if len(found) != 1:
            whose = [one.manifest.lineage for one in found]
            known = f"several lineages have one: {whose}" if found else "there is none"
            return Refused(reason=f"checkpoint {query.checkpoint!r} of {query.job}: {known}")
        (one,) = found
        mark = partial(self._house.storage.mark, one.manifest, pinned=query.pinned)
        pinned = Listed(one.manifest, await asyncio.to_thread(mark))
        await self._index.enter(pinned)
        return CheckpointPinned(record=self._index.record(pinned))

    async def prune(self, query: PruneCheckpoints) -> PruneCheckpointsReply:
        """Delete what is not kept, or only say what that would be."""
        retention = self._house.policy.retention
        if query.dry_run:
            going = await self._pruner.outdated(query.job, retention)
        else:
            going = await self._pruner.prune(query.job, retention)
        records = [self._index.record(Listed(one)) for one in going[:MAX_LISTED]]
        omitted = len(going) - len(records)
        return PruneCheckpointsReply(
            checkpoints=tuple(records), omitted=omitted, dry_run=query.dry_run
        )
