"""Request and reply of the checkpoint indexer: what there is, what is kept, what may go."""

from typing import ClassVar, Final

from pydantic import Field

from everstep_contract.base import Model, Name
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Standing
from everstep_contract.queries import Query, Reply
from everstep_contract.record import CheckpointRecord

MAX_LISTED: Final = 128
"""Checkpoints in one reply, so that it stays well below what a message may have."""


class CheckpointListing(Model):
    """A committed checkpoint, and what it is good for."""

    record: CheckpointRecord
    standing: Standing


class ListCheckpointsReply(Reply):
    """Job by job, lineage by lineage, best first."""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.list_reply.v1"

    checkpoints: tuple[CheckpointListing, ...] = Field(max_length=MAX_LISTED)
    omitted: int = Field(default=0, ge=0, description="So many more there are.")


class ListCheckpoints(Query):
    """Which checkpoints does a job have, or do all jobs?"""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.list.v1"
    SERVICE: ClassVar[str] = "checkpoint_indexer"
    QUERY: ClassVar[str] = "list"
    REPLY: ClassVar[type[Reply]] = ListCheckpointsReply

    job: JobKey | None = None


class CheckpointPinned(Reply):
    """The checkpoint as it is marked now, on storage."""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.pinned.v1"

    record: CheckpointRecord


class PinCheckpoint(Query):
    """Operator: keep a checkpoint whatever retention says, or no longer."""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.pin.v1"
    SERVICE: ClassVar[str] = "checkpoint_indexer"
    QUERY: ClassVar[str] = "pin"
    REPLY: ClassVar[type[Reply]] = CheckpointPinned

    job: JobKey
    checkpoint: Name
    lineage: Name | None = Field(
        default=None, description="Needed where two lineages of the job have one of this name."
    )
    pinned: bool = True


class PruneCheckpointsReply(Reply):
    """What was deleted, or would be, in this order."""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.prune_reply.v1"

    checkpoints: tuple[CheckpointRecord, ...] = Field(max_length=MAX_LISTED)
    omitted: int = Field(default=0, ge=0, description="So many more there are.")
    dry_run: bool


class PruneCheckpoints(Query):
    """Operator: delete now what retention does not keep."""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.prune.v1"
    SERVICE: ClassVar[str] = "checkpoint_indexer"
    QUERY: ClassVar[str] = "prune"
    REPLY: ClassVar[type[Reply]] = PruneCheckpointsReply

    job: JobKey | None = None
    dry_run: bool = True
