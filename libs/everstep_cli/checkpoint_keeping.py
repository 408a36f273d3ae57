"""`everstep checkpoints pin | unpin | prune`: asked of the indexer, or done in a folder."""

import json
import sys
from dataclasses import dataclass
from typing import Final

from everstep_bus.interface import Bus
from everstep_checkpoint.keeping import lineages, named, outdated
from everstep_checkpoint.retention import Retention
from everstep_checkpoint.storage import Storage
from everstep_contract.checkpoint_queries import (
    CheckpointPinned,
    ListCheckpoints,
    ListCheckpointsReply,
    PinCheckpoint,
    PruneCheckpoints,
    PruneCheckpointsReply,
)
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest
from everstep_contract.record import CheckpointRecord

from everstep_cli.access import ASK_SECONDS, with_bus
from everstep_cli.errors import CommandError, MisuseError
from everstep_cli.options import Access
from everstep_cli.terminal import output

PRUNE_SECONDS: Final = 60.0
"""Deleting hundreds of gigabytes takes a while."""

Where = Access | str | None
"""A bus with an indexer, or the root itself."""


@dataclass(frozen=True)
class Pruning:
    """What is asked for; ``retention`` counts where no indexer has its own."""

    job: str | None
    retention: Retention
    dry_run: bool


def pin(where: Where, name: str, job: str | None, *, pinned: bool) -> None:
    """Mark a checkpoint as one that somebody wants kept, or no longer.

    Raises:
        NoSuchCheckpointError: There is none of this name, or more than one.
        CommandError: The indexer refused, or does not answer.
    """
    if isinstance(where, Access):
        with_bus(lambda bus: _ask_to_pin(bus, name, job, pinned=pinned), where)
    else:
        storage = _storage(where)
        storage.mark(named(storage.listed()[0], name, job).manifest, pinned=pinned)
    output().print(f"{name}: {'pinned' if pinned else 'no longer pinned'}", markup=False)


async def _ask_to_pin(bus: Bus, name: str, job: str | None, *, pinned: bool) -> None:
    listed = await bus.ask(ListCheckpoints(), ListCheckpointsReply, timeout_seconds=ASK_SECONDS)
    records = [one.record for one in listed.checkpoints]
    found = [
        one
        for one in records
        if one.checkpoint == name and job in (None, str(one.job), one.lineage)
    ]
    if len(found) != 1:
        whose = ", ".join(f"{one.job} (uid {one.lineage})" for one in found)
        raise CommandError(f"checkpoint {name!r}: {whose or 'there is none'}; --job names one")
    (one,) = found
    query = PinCheckpoint(
        job=one.job, checkpoint=one.checkpoint, lineage=one.lineage, pinned=pinned
    )
    await bus.ask(query, CheckpointPinned, timeout_seconds=ASK_SECONDS)


def prune(where: Where, asked: Pruning, *, as_json: bool) -> None:
    """Delete what retention does not keep, and print what that was, or would be.

    Raises:
        MisuseError: The job's name is none, or neither a bus nor a folder is named.
        CommandError: The indexer refused, or does not answer.
    """
    if isinstance(where, Access):
        going = with_bus(lambda bus: _ask_to_prune(bus, asked), where)
        rows = [(str(one.job), one.checkpoint, one.total_bytes) for one in going]
    else:
        deleted = _prune(_storage(where), asked)
        rows = [(str(one.job), one.checkpoint, one.total_bytes) for one in deleted]
    if as_json:
        fields = ("job", "checkpoint", "total_bytes")
        document = [dict(zip(fields, row, strict=True)) for row in rows]
        sys.stdout.write(json.dumps(document) + "\n")
        return
    word = "would go" if asked.dry_run else "deleted"
    for job, checkpoint, total_bytes in rows:
        output().print(f"{word}: {checkpoint} of {job}, {total_bytes} bytes", markup=False)
    if not rows:
        output().print("nothing to delete")


async def _ask_to_prune(bus: Bus, asked: Pruning) -> tuple[CheckpointRecord, ...]:
    query = PruneCheckpoints(job=_job_key(asked.job), dry_run=asked.dry_run)
    reply = await bus.ask(query, PruneCheckpointsReply, timeout_seconds=PRUNE_SECONDS)
    return reply.checkpoints


def _prune(storage: Storage, asked: Pruning) -> list[Manifest]:
    going = [
        manifest
        for lineage in lineages(storage.listed()[0])
        if asked.job in (None, str(lineage.job))
        for manifest in outdated(storage, lineage, asked.retention)
    ]
    for manifest in () if asked.dry_run else going:
        storage.delete(manifest)
    return going


def _job_key(job: str | None) -> JobKey | None:
    if job is None:
        return None
    namespace, slash, name = job.partition("/")
    if not slash:
        raise MisuseError(f"--job {job!r} is not like NAMESPACE/NAME")
    return JobKey(namespace=namespace, name=name)


def _storage(root: str | None) -> Storage:
    if root is None:
        raise MisuseError("name a bus with --nats-url, or a folder with --root")
    return Storage(root)
