"""The index: what is committed, in memory and in key-value, both copies of what storage says."""

import asyncio
from typing import Final

import structlog
from everstep_bus.errors import RevisionMismatchError, TransientBusError
from everstep_checkpoint.keeping import Lineage, lineages, of_lineage
from everstep_checkpoint.validity import Listed, standings
from everstep_contract.facts.checkpoint import CheckpointCommitted
from everstep_contract.identity import JobKey
from everstep_contract.layout import CHECKPOINTS, JOBS
from everstep_contract.manifest import Manifest, Standing
from everstep_contract.names import encode_name
from everstep_contract.record import CheckpointRecord, JobRecord

from everstep_checkpoint_indexer.decide import record_of, starts_of
from everstep_checkpoint_indexer.model import House

MAX_TRIES: Final = 5
"""Of one compare-and-set; only a second indexer, which is about to lose its lease, competes."""

log = structlog.get_logger()


class Index:
    """The committed checkpoints of all jobs.

    Attributes:
        changing: Held by whoever makes a checkpoint of something, or makes one none.
    """

    def __init__(self, house: House) -> None:
        self._bus = house.bus
        self._storage = house.storage
        self._known: dict[str, Listed] = {}
        self.changing = asyncio.Lock()

    async def rebuild(self) -> None:
        """Take over what lies on storage: the set of manifests is the truth.

        What key-value lacks is told again, since a crash may have come between commit and telling.

        Raises:
            TransientBusError: Not all of it was done; do it again.
            OSError: Storage does not answer; do it again.
        """
        found, unreadable = await asyncio.to_thread(self._storage.listed)
        for error in unreadable:
            log.warning("no checkpoint", why=str(error))
        self._known = {_key(one.manifest): one for one in found}
        entries = await self._bus.kv(CHECKPOINTS).entries()
        told = {entry.key: entry.value for entry in entries if entry.value}
        for key, one in list(self._known.items()):
            if key not in told:
                await self.tell(one)
            if told.get(key) != self.record(one):
                await self.enter(one)
        for key in told.keys() - self._known.keys():
            await self._delete(key)

    async def discover(self) -> list[Manifest]:
        """Take in what others committed, such as imports; the caller lets nobody delete meanwhile.

        Raises:
            TransientBusError: Not all of it was done; do it again.
            OSError: Storage does not answer; do it again.
        """
        found, _ = await asyncio.to_thread(self._storage.listed)
        new = [one for one in found if _key(one.manifest) not in self._known]
        for one in new:
            await self.tell(one)
            await self.enter(one)
        return [one.manifest for one in new]

    def knows(self, manifest: Manifest) -> Listed | None:
        """The checkpoint as it is known, if it is."""
        return self._known.get(_key(manifest))

    def all(self) -> list[Listed]:
        """All that are known."""
        return list(self._known.values())

    def find(self, job: JobKey, checkpoint: str, lineage: str | None = None) -> list[Listed]:
        """Those of this name, one a lineage."""
        return [
            one
            for one in self._known.values()
            if (one.manifest.job, one.manifest.checkpoint) == (job, checkpoint)
            and lineage in (None, one.manifest.lineage)
        ]

    async def tell(self, one: Listed) -> None:
        """Say that it was committed; a repeat is harmless."""
        record = self.record(one)
        await self._bus.publish(
            CheckpointCommitted(
                at=record.committed_at, job=record.job, job_uid=record.lineage, record=record
            )
        )

    async def enter(self, one: Listed) -> None:
        """Know a checkpoint as it now is.

        Raises:
            TransientBusError: Key-value may not; do it again.
        """
        self._known[_key(one.manifest)] = one
        kv, key, record = self._bus.kv(CHECKPOINTS), _key(one.manifest), self.record(one)
        for _ in range(MAX_TRIES):
            entry = await kv.get(key)
            if entry is not None and entry.value == record:
                return
            try:
                await kv.put(key, record, expected=entry.revision if entry else 0)
            except RevisionMismatchError:
                continue
            return
        raise TransientBusError(f"{key!r} changed {MAX_TRIES} times while it was written")

    async def forget(self, manifest: Manifest) -> None:
        """It was deleted.

        Raises:
            TransientBusError: Key-value may still have it; the next rebuild puts that right.
        """
        self._known.pop(_key(manifest), None)
        await self._delete(_key(manifest))

    async def latest(self, job: JobKey) -> CheckpointRecord | None:
        """Which checkpoint the job would be restored from: of its newest lineage, if it is over."""
        record = await self.job(job)
        best = [
            one
            for lineage in await self.lineages(job)
            if record is None or lineage.uid == record.job_uid
            for one, standing in standings(of_lineage(self.all(), lineage), lineage.starts)
            if standing == "newest"
        ]
        newest = max(best, key=lambda one: one.manifest.committed_at, default=None)
        return self.record(newest) if newest else None

    async def listing(self, job: JobKey | None) -> list[tuple[CheckpointRecord, Standing]]:
        """All checkpoints, or a job's: lineage by lineage, best first."""
        return [
            (self.record(one), standing)
            for lineage in await self.lineages(job)
            for one, standing in standings(of_lineage(self.all(), lineage), lineage.starts)
        ]

    async def lineages(self, job: JobKey | None = None) -> list[Lineage]:
        """All lineages, or a job's, with what its record says of where generations began."""
        found = [one for one in lineages(self.all()) if job in (None, one.job)]
        return [
            Lineage(one.job, one.uid, starts_of(one.uid, await self.job(one.job))) for one in found
        ]

    async def job(self, job: JobKey) -> JobRecord | None:
        """The job's record."""
        entry = await self._bus.kv(JOBS).get(job.token)
        return entry.value if entry else None

    def record(self, one: Listed) -> CheckpointRecord:
        """What key-value has of it."""
        return record_of(one, self._storage.where(self._storage.folder(one.manifest)))

    async def _delete(self, key: str) -> None:
        kv = self._bus.kv(CHECKPOINTS)
        entry = await kv.get(key)
        if entry is None or entry.value is None:
            return
        try:
            await kv.delete(key, expected=entry.revision)
        except RevisionMismatchError:
            log.debug("index entry changed while it was deleted", key=key)


def _key(manifest: Manifest) -> str:
    tokens = (encode_name(manifest.lineage), encode_name(manifest.checkpoint))
    return ".".join((manifest.job.token, *tokens))
