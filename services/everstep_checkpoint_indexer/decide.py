"""What is committed of a complete attempt, which folders nobody needs any more. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from everstep_checkpoint.media import Key
from everstep_checkpoint.validity import Listed
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.manifest import Manifest, ShardFile, checkpoint_name
from everstep_contract.record import MAX_HISTORY, CheckpointRecord, GenerationStart, JobRecord
from pydantic import ValidationError

from everstep_checkpoint_indexer.model import Complete


def is_possible(fact: ShardPrepared) -> bool:
    """Whether a checkpoint can be made of it."""
    try:
        _file(fact)
    except ValidationError:
        return False
    named = fact.checkpoint == checkpoint_name(fact.generation, fact.step)
    return named and fact.shard < fact.shards


def manifest_of(complete: Complete, job: JobRecord | None) -> Manifest:
    """What is to be committed, with what the job's record knows of its generations."""
    attempt = complete.attempt
    return Manifest(
        job=attempt.job,
        checkpoint=attempt.checkpoint,
        lineage=attempt.job_uid,
        generation=attempt.generation,
        step=attempt.step,
        world_size=complete.world_size,
        shards=tuple(_file(shard) for shard in complete.shards),
        history=starts_of(attempt.job_uid, job),
        committed_at=max(shard.at for shard in complete.shards),
    )


def _file(shard: ShardPrepared) -> ShardFile:
    return ShardFile(
        kind=shard.kind,
        shard=shard.shard,
        file=PurePath(shard.path).name,
        total_bytes=shard.total_bytes,
        xxh3_128=shard.xxh3_128,
    )


def record_of(listed: Listed, path: str) -> CheckpointRecord:
    """The index's entry for a committed checkpoint."""
    manifest = listed.manifest
    return CheckpointRecord(
        job=manifest.job,
        checkpoint=manifest.checkpoint,
        lineage=manifest.lineage,
        generation=manifest.generation,
        step=manifest.step,
        path=path,
        total_bytes=manifest.total_bytes,
        committed_at=manifest.committed_at,
        verified_at=listed.marks.verified_at,
        damage=listed.marks.damage,
        pinned=listed.marks.pinned,
    )


def starts_of(lineage: str, job: JobRecord | None) -> tuple[GenerationStart, ...]:
    """At which steps the newest generations of this lineage began, as the job's record knows."""
    if job is None or job.job_uid != lineage:
        return ()
    known = list(job.history)
    if job.start_step is not None:
        current = GenerationStart(generation=job.generation, start_step=job.start_step)
        known += [] if current in known else [current]
    return tuple(known[-MAX_HISTORY:])


@dataclass(frozen=True)
class Sighting:
    """A folder as it was seen: a trace of what was in it, and since when."""

    trace: int
    since: float


def abandoned(
    seen: Mapping[Key, Sighting], found: Mapping[Key, int], now: float, idle_seconds: float
) -> tuple[dict[Key, Sighting], tuple[Key, ...]]:
    """Which folders have stood still for so long, and what to remember until the next look.

    Only this process's clock is compared with itself; what storage tells, for equality.
    """
    sightings = {
        path: seen[path] if path in seen and seen[path].trace == trace else Sighting(trace, now)
        for path, trace in found.items()
    }
    still = [path for path, sighting in sightings.items() if now - sighting.since >= idle_seconds]
    return sightings, tuple(still)
