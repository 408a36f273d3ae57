"""When a checkpoint is complete, whether it is void, and which one is the latest (R26)."""

from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from everstep_checkpoint.validity import is_void
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.manifest import Manifest, ShardFile
from everstep_contract.record import CheckpointRecord, GenerationStart, JobRecord
from pydantic import ValidationError

from everstep_checkpoint_indexer.model import Attempt, Complete, Gathering

MAX_PENDING: Final = 1024
"""Incomplete attempts remembered; an older one was abandoned by its writers."""


def is_possible(fact: ShardPrepared) -> bool:
    """Whether a checkpoint can be made of it."""
    try:
        _file(fact)
    except ValidationError:
        return False
    return fact.shard < fact.shards


def gather(gathering: Gathering, fact: ShardPrepared) -> tuple[Gathering, Complete | None]:
    """Take one shard in; with the last shard of its attempt comes the whole."""
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
        return Gathering(pending), Complete(attempt, tuple(shards[n] for n in sorted(shards)))
    pending[attempt] = shards
    while len(pending) > MAX_PENDING:
        del pending[next(iter(pending))]
    return Gathering(pending), None


def manifest_of(complete: Complete, job: JobRecord | None) -> Manifest:
    """What is to be committed, with what the job's record knows of its generations."""
    attempt = complete.attempt
    return Manifest(
        job=attempt.job,
        checkpoint=attempt.checkpoint,
        lineage=attempt.job_uid,
        generation=attempt.generation,
        step=attempt.step,
        shards=tuple(_file(shard) for shard in complete.shards),
        history=starts_of(attempt.job_uid, job),
        committed_at=max(shard.at for shard in complete.shards),
    )


def _file(shard: ShardPrepared) -> ShardFile:
    name = PurePath(shard.path).name
    return ShardFile(file=name, total_bytes=shard.total_bytes, xxh3_128=shard.xxh3_128)


def record_of(manifest: Manifest, path: str) -> CheckpointRecord:
    """The index's entry for a committed checkpoint."""
    return CheckpointRecord(
        job=manifest.job,
        checkpoint=manifest.checkpoint,
        lineage=manifest.lineage,
        generation=manifest.generation,
        step=manifest.step,
        path=path,
        total_bytes=manifest.total_bytes,
        committed_at=manifest.committed_at,
    )


def starts_of(lineage: str, job: JobRecord | None) -> tuple[GenerationStart, ...]:
    """At which steps the generations of this lineage began, as far as the job's record knows."""
    if job is None or job.job_uid != lineage:
        return ()
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
        if (job is None or checkpoint.lineage == job.job_uid)
        and not is_void(checkpoint, starts_of(checkpoint.lineage, job))
    ]
    return max(good, key=lambda one: (one.step, one.generation), default=None)
