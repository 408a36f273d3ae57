"""When a checkpoint is complete, whether it is void, and which one is the latest (R26)."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.record import CheckpointRecord, GenerationStart, JobRecord

from everstep_checkpoint_indexer.model import Attempt, Gathering

MAX_PENDING: Final = 1024
"""Incomplete attempts remembered; an older one was abandoned by its writers."""


def gather(gathering: Gathering, fact: ShardPrepared) -> tuple[Gathering, CheckpointRecord | None]:
    """Take one shard in; with the last shard of its attempt comes the record of the whole."""
    attempt = Attempt(
        job=fact.job,
        job_uid=fact.member.job_uid,
        checkpoint=fact.checkpoint,
        generation=fact.generation,
        step=fact.step,
        shards=fact.shards,
    )
    pending = dict(gathering.pending)
    shards = {**pending.pop(attempt, {}), fact.shard: fact}
    if shards.keys() >= set(range(fact.shards)):
        return Gathering(pending), _record(attempt, tuple(shards.values()))
    pending[attempt] = shards
    while len(pending) > MAX_PENDING:
        del pending[next(iter(pending))]
    return Gathering(pending), None


def _record(attempt: Attempt, shards: tuple[ShardPrepared, ...]) -> CheckpointRecord:
    return CheckpointRecord(
        job=attempt.job,
        checkpoint=attempt.checkpoint,
        lineage=attempt.job_uid,
        generation=attempt.generation,
        step=attempt.step,
        path=str(PurePath(shards[0].path).parent),
        total_bytes=sum(shard.total_bytes for shard in shards),
        committed_at=max(shard.at for shard in shards),
    )


def is_void(checkpoint: CheckpointRecord, job: JobRecord | None) -> bool:
    """Whether a later generation went back to before the checkpoint's step (R26).

    Equality of generations does not matter: the breakpoint save of a broken generation is good
    as long as no later one started earlier.
    """
    if job is None or job.job_uid != checkpoint.lineage:
        return False
    return any(
        start.generation > checkpoint.generation and checkpoint.step > start.start_step
        for start in _starts(job)
    )


def _starts(job: JobRecord) -> tuple[GenerationStart, ...]:
    if job.start_step is None:
        return job.history
    current = GenerationStart(generation=job.generation, start_step=job.start_step)
    return (*job.history, current)


def latest(
    checkpoints: Iterable[CheckpointRecord], job: JobRecord | None
) -> CheckpointRecord | None:
    """The newest checkpoint of the job's lineage that is not void; of any, if there is no job."""
    good = [
        checkpoint
        for checkpoint in checkpoints
        if (job is None or checkpoint.lineage == job.job_uid) and not is_void(checkpoint, job)
    ]
    return max(good, key=lambda one: (one.step, one.generation), default=None)
