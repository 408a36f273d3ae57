"""Commits complete attempts, each once, and none that a rollback has overtaken (R26)."""

import asyncio
from collections.abc import Sequence

import structlog
from everstep_bus.errors import TransientBusError
from everstep_checkpoint.errors import DamagedError, IncompleteError, StorageFullError
from everstep_checkpoint.validity import is_void
from everstep_contract.manifest import Manifest

from everstep_checkpoint_indexer.decide import manifest_of, starts_of
from everstep_checkpoint_indexer.enact import Index
from everstep_checkpoint_indexer.metrics import CHECKPOINTS, CheckpointOutcome
from everstep_checkpoint_indexer.model import Complete, House
from everstep_checkpoint_indexer.pruning import Pruner
from everstep_checkpoint_indexer.reading import Reader

log = structlog.get_logger()


class Committer:
    """Turns complete attempts into checkpoints; nobody else does."""

    def __init__(self, house: House, index: Index, reader: Reader, pruner: Pruner) -> None:
        self._storage = house.storage
        self._index = index
        self._reader = reader
        self._pruner = pruner

    async def commit(self, complete: Complete) -> bool:
        """Make an attempt a checkpoint, tell of it, and have it read back; false: try again.

        A crash in between repeats what follows, and all of it can be repeated. Whatever is in the
        way (a full disk, a bus that is away, somebody's hand), only this attempt waits for it.
        """
        try:
            async with self._index.changing:
                outcome = await self._commit(complete)
        except (TransientBusError, StorageFullError, DamagedError, OSError) as error:
            log.warning("checkpoint not committed yet", why=str(error), **_fields(complete))
            outcome = "postponed"
            if isinstance(error, StorageFullError):
                await self._pruner.make_room(complete.attempt.job)
        CHECKPOINTS.labels(outcome).inc()
        return outcome != "postponed"

    async def without_gone(self, completes: Sequence[Complete]) -> list[Complete]:
        """Those of which anything is there: most of what a new life hears of was pruned long ago.

        One look for all of them: the stream remembers a month.

        Raises:
            OSError: Storage does not answer.
        """
        there = set(await asyncio.to_thread(self._storage.folders))

        def is_there(complete: Complete) -> bool:
            one = manifest_of(complete, None)
            attempt = self._storage.attempt(one.job, one.lineage, one.generation, one.step)
            return attempt in there or self._storage.folder(one) in there

        left = [complete for complete in completes if is_there(complete)]
        CHECKPOINTS.labels("gone").inc(len(completes) - len(left))
        return left

    async def _commit(self, complete: Complete) -> CheckpointOutcome:
        job = await self._index.job(complete.attempt.job)
        manifest = manifest_of(complete, job)
        if self._index.knows(manifest):
            return "already"
        if await self._refused(manifest):
            return "void"
        try:
            await asyncio.to_thread(self._storage.commit, manifest)
        except IncompleteError as error:
            log.warning("checkpoint incomplete", why=str(error), **_fields(complete))
            return "incomplete"
        if await self._refused(manifest):
            return "void"
        committed = await asyncio.to_thread(self._storage.read, manifest)
        await self._index.tell(committed)
        await self._index.enter(committed)
        self._reader.enqueue(committed.manifest)
        log.info("checkpoint committed", total_bytes=manifest.total_bytes, **_fields(complete))
        return "committed"

    async def _refused(self, manifest: Manifest) -> bool:
        """Whether a successor began before it (EC-23); then it is no checkpoint, or one no longer.

        Asked before and after the commit: where the successor began may become known in between.
        """
        job = await self._index.job(manifest.job)
        if not is_void(manifest, starts_of(manifest.lineage, job)):
            return False
        if await asyncio.to_thread(self._storage.is_committed, manifest):
            await asyncio.to_thread(self._storage.delete, manifest)
        log.warning("checkpoint void", job=str(manifest.job), checkpoint=manifest.checkpoint)
        return True


def _fields(complete: Complete) -> dict[str, object]:
    attempt = complete.attempt
    return {
        "job": str(attempt.job),
        "checkpoint": attempt.checkpoint,
        "generation": attempt.generation,
        "step": attempt.step,
        "shards": len(complete.shards),
    }
