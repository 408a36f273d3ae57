"""Commits on storage, tells of it, and records it in the index; repeats none of the three."""

import asyncio

import structlog
from everstep_bus.errors import RevisionMismatchError
from everstep_bus.interface import Bus
from everstep_checkpoint.errors import IncompleteError
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import is_void
from everstep_contract.facts.checkpoint import CheckpointCommitted
from everstep_contract.identity import JobKey
from everstep_contract.layout import CHECKPOINTS, JOBS
from everstep_contract.manifest import Manifest
from everstep_contract.names import encode_name
from everstep_contract.record import CheckpointRecord, JobRecord

from everstep_checkpoint_indexer import metrics
from everstep_checkpoint_indexer.decide import latest, manifest_of, record_of, starts_of
from everstep_checkpoint_indexer.model import Complete

log = structlog.get_logger()


class Index:
    """The committed checkpoints of all jobs: manifests on storage, and their copy in key-value."""

    def __init__(self, bus: Bus, storage: Storage) -> None:
        self._bus = bus
        self._storage = storage

    async def commit(self, complete: Complete) -> None:
        """Make a complete attempt a checkpoint, tell of it, then record it.

        A crash in between repeats what follows, and all of it can be repeated.

        Raises:
            TransientBusError: Not known whether that was done; do it again.
            StorageFullError: There is no room for the manifest; do it again.
            OSError: Storage does not answer; do it again.
        """
        job = await self._job(complete.attempt.job)
        manifest = manifest_of(complete, job)
        folder = self._storage.folder(manifest)
        record = record_of(manifest, str(folder))
        if await self._is_indexed(record):
            metrics.CHECKPOINTS.labels("already").inc()
            return
        if is_void(manifest, starts_of(manifest.lineage, job)):
            metrics.CHECKPOINTS.labels("void").inc()
            log.warning("checkpoint void", **_fields(manifest))
            return
        try:
            await asyncio.to_thread(self._storage.commit, manifest)
        except IncompleteError as error:
            metrics.CHECKPOINTS.labels("incomplete").inc()
            log.warning("checkpoint incomplete", why=str(error), **_fields(manifest))
            return
        told = CheckpointCommitted(
            at=record.committed_at, job=record.job, job_uid=record.lineage, record=record
        )
        await self._bus.publish(told)
        await self._enter(record)
        metrics.CHECKPOINTS.labels("committed").inc()
        log.info("checkpoint committed", **_fields(manifest))

    async def rebuild(self) -> None:
        """Enter what lies on storage and is not in the index: the set of manifests is the truth.

        Raises:
            TransientBusError: Not all of it was done; do it again.
            OSError: Storage does not answer; do it again.
        """
        found, damaged = await asyncio.to_thread(self._storage.manifests)
        for error in damaged:
            metrics.CHECKPOINTS.labels("damaged").inc()
            log.warning("no checkpoint", why=str(error))
        for manifest in found:
            record = record_of(manifest, str(self._storage.folder(manifest)))
            if not await self._is_indexed(record):
                await self._enter(record)
                log.info("checkpoint found", **_fields(manifest))

    async def latest(self, job: JobKey) -> CheckpointRecord | None:
        """Which checkpoint the job would restore from."""
        entries = await self._bus.kv(CHECKPOINTS).entries()
        records = [entry.value for entry in entries if entry.value and entry.value.job == job]
        return latest(records, await self._job(job))

    async def _is_indexed(self, record: CheckpointRecord) -> bool:
        known = await self._bus.kv(CHECKPOINTS).get(_key(record))
        return known is not None and known.value == record

    async def _enter(self, record: CheckpointRecord) -> None:
        try:
            await self._bus.kv(CHECKPOINTS).put(_key(record), record, expected=0)
        except RevisionMismatchError:
            log.debug("checkpoint recorded by another", checkpoint=record.checkpoint)

    async def _job(self, job: JobKey) -> JobRecord | None:
        entry = await self._bus.kv(JOBS).get(job.token)
        return entry.value if entry else None


def _key(record: CheckpointRecord) -> str:
    return f"{record.job.token}.{encode_name(record.checkpoint)}"


def _fields(manifest: Manifest) -> dict[str, object]:
    return {
        "job": str(manifest.job),
        "checkpoint": manifest.checkpoint,
        "generation": manifest.generation,
        "step": manifest.step,
        "total_bytes": manifest.total_bytes,
    }
