"""Deletes what retention does not keep and what nobody will ever commit."""

import asyncio
from collections.abc import Collection
from functools import partial

import structlog
from everstep_bus.errors import TransientBusError
from everstep_checkpoint.keeping import Lineage, outdated
from everstep_checkpoint.media import Key
from everstep_checkpoint.retention import Retention
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest

from everstep_checkpoint_indexer.decide import Sighting, abandoned
from everstep_checkpoint_indexer.enact import Index
from everstep_checkpoint_indexer.metrics import COLLECTED, PRUNED, PRUNED_BYTES
from everstep_checkpoint_indexer.model import House
from everstep_checkpoint_indexer.reading import Reader

log = structlog.get_logger()


class Pruner:
    """The only one that deletes; by what storage says when it does."""

    def __init__(self, house: House, index: Index, reader: Reader) -> None:
        self._house = house
        self._storage = house.storage
        self._index = index
        self._reader = reader
        self._seen: dict[Key, Sighting] = {}

    async def outdated(self, job: JobKey | None, retention: Retention) -> list[Manifest]:
        """What may go of a job's lineages, or of all jobs'."""
        return [
            manifest
            for lineage in await self._index.lineages(job)
            for manifest in await self._of(lineage, retention)
        ]

    async def prune(
        self, job: JobKey | None = None, retention: Retention | None = None
    ) -> list[Manifest]:
        """Delete it, one after the other, and say what was deleted.

        Raises:
            TransientBusError: What may go is not known, or the index was not told; do it again.
        """
        left: list[Key] = []
        try:
            async with self._index.changing:
                going = await self.outdated(job, retention or self._house.policy.retention)
                for manifest in going:
                    left.append(await asyncio.to_thread(self._storage.set_aside, manifest))
                    _note(manifest)
                    await self._index.forget(manifest)
        finally:
            await asyncio.to_thread(self._storage.collect, left)
        return going

    async def discover(self) -> None:
        """Take in, and have read back, what was committed by others: imports.

        Raises:
            TransientBusError: Not all of it was done; do it again.
            OSError: Storage does not answer; do it again.
        """
        async with self._index.changing:
            new = await self._index.discover()
        for manifest in new:
            log.info("checkpoint found", job=str(manifest.job), checkpoint=manifest.checkpoint)
            self._reader.enqueue(manifest)

    async def after(self, manifest: Manifest) -> None:
        """Prune what a checkpoint that was just read back has made superfluous."""
        await self._prune_or_say(manifest.job, self._house.policy.retention)

    async def make_room(self, job: JobKey) -> None:
        """A job found no room: what only a byte budget keeps goes too, of others if it has none."""
        retention = self._house.policy.retention.without_budget()
        freed = await self._prune_or_say(job, retention)
        freed = freed or await self._prune_or_say(None, retention)
        log.error(
            "checkpoint storage full",
            job=str(job),
            deleted=[manifest.checkpoint for manifest in freed],
            freed_bytes=sum(manifest.total_bytes for manifest in freed),
        )

    async def collect(self, kept: Collection[Key]) -> None:
        """Delete attempts that have stood still for long, except those that are waited for.

        Call it every minute or so: it remembers since when which attempt has stood still.
        """
        found = await asyncio.to_thread(self._storage.leftovers)
        self._seen, still = abandoned(
            self._seen, found, self._house.clock.monotonic(), self._house.policy.idle_seconds
        )
        going = [one for one in still if one not in kept]
        await asyncio.to_thread(self._storage.collect, going)
        COLLECTED.inc(len(going))
        if going:
            log.info("attempts collected", paths=[self._storage.where(one) for one in going])

    async def _of(self, lineage: Lineage, retention: Retention) -> tuple[Manifest, ...]:
        busy = self._reader.busy
        look = partial(outdated, self._storage, lineage, retention, busy=busy)
        return await asyncio.to_thread(look)

    async def _prune_or_say(self, job: JobKey | None, retention: Retention) -> list[Manifest]:
        try:
            return await self.prune(job, retention)
        except (TransientBusError, OSError) as error:
            log.warning("not pruned yet", why=str(error))
            return []


def _note(deleted: Manifest) -> None:
    PRUNED.inc()
    PRUNED_BYTES.inc(deleted.total_bytes)
    log.info("checkpoint deleted", job=str(deleted.job), checkpoint=deleted.checkpoint)
