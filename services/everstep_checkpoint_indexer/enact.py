"""Tells of a committed checkpoint and records it in the index; repeats neither."""

import structlog
from everstep_bus.errors import RevisionMismatchError
from everstep_bus.interface import Bus
from everstep_contract.facts.checkpoint import CheckpointCommitted
from everstep_contract.identity import JobKey
from everstep_contract.layout import CHECKPOINTS, JOBS
from everstep_contract.names import encode_name
from everstep_contract.record import CheckpointRecord, JobRecord

from everstep_checkpoint_indexer import metrics
from everstep_checkpoint_indexer.decide import is_void, latest

log = structlog.get_logger()


class Index:
    """The committed checkpoints of all jobs, in key-value."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def commit(self, checkpoint: CheckpointRecord) -> None:
        """Tell of a complete checkpoint, then record it, so that a crash repeats the telling.

        Raises:
            TransientBusError: Not known whether that was done; do it again.
        """
        key = f"{checkpoint.job.token}.{encode_name(checkpoint.checkpoint)}"
        known = await self._bus.kv(CHECKPOINTS).get(key)
        if known and known.value and known.value == checkpoint:
            metrics.CHECKPOINTS.labels("already").inc()
            return
        if is_void(checkpoint, await self._job(checkpoint.job)):
            metrics.CHECKPOINTS.labels("void").inc()
            log.warning("checkpoint void", **_fields(checkpoint))
            return
        committed = CheckpointCommitted(
            at=checkpoint.committed_at,
            job=checkpoint.job,
            job_uid=checkpoint.lineage,
            record=checkpoint,
        )
        await self._bus.publish(committed)
        try:
            await self._bus.kv(CHECKPOINTS).put(key, checkpoint, expected=0)
        except RevisionMismatchError:
            log.debug("checkpoint recorded by another", **_fields(checkpoint))
            return
        metrics.CHECKPOINTS.labels("committed").inc()
        log.info("checkpoint committed", **_fields(checkpoint))

    async def latest(self, job: JobKey) -> CheckpointRecord | None:
        """Which checkpoint the job would restore from."""
        entries = await self._bus.kv(CHECKPOINTS).entries()
        records = [entry.value for entry in entries if entry.value and entry.value.job == job]
        return latest(records, await self._job(job))

    async def _job(self, job: JobKey) -> JobRecord | None:
        entry = await self._bus.kv(JOBS).get(job.token)
        return entry.value if entry else None


def _fields(checkpoint: CheckpointRecord) -> dict[str, object]:
    return {
        "job": str(checkpoint.job),
        "checkpoint": checkpoint.checkpoint,
        "generation": checkpoint.generation,
        "step": checkpoint.step,
        "total_bytes": checkpoint.total_bytes,
    }
