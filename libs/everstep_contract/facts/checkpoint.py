"""Facts about checkpoints."""

from typing import ClassVar, Literal

from pydantic import Field

from everstep_contract.base import Event, Generation, Name, Step, Text
from everstep_contract.facts.member import MemberEvent
from everstep_contract.identity import JobKey
from everstep_contract.manifest import ShardKind
from everstep_contract.record import CheckpointRecord


class ShardPrepared(MemberEvent):
    """One shard of a checkpoint lies on durable storage, hashed and synced.

    A checkpoint is complete with all shards of kind "state". Those of kind "rank" belong to it as
    well, but ranks that died with their node have none.
    """

    TYPE: ClassVar[str] = "everstep.checkpoint.shard_prepared.v1"

    checkpoint: Name
    generation: Generation
    step: Step
    kind: ShardKind = "state"
    shard: int = Field(ge=0, description="Of its kind; of a rank's own shard, the rank.")
    shards: int = Field(ge=1, description="Of its kind in the whole checkpoint.")
    path: str = Field(max_length=4096)
    total_bytes: int = Field(ge=0)
    xxh3_128: str = Field(pattern=r"^[0-9a-f]{32}$")

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.checkpoint}/{self.kind}/{self.shard}"


class CheckpointCommitted(Event):
    """All shards and the manifest are durable: eligible for restore."""

    TYPE: ClassVar[str] = "everstep.checkpoint.committed.v1"

    job: JobKey
    job_uid: Name
    record: CheckpointRecord

    @property
    def entity_id(self) -> str:
        return self.record.checkpoint

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.job_uid}/{self.record.lineage}/{self.record.checkpoint}"


SaveTrouble = Literal["full", "unwritable", "overwritten", "abandoned"]
"""full: no room, by the disk or by the quota · unwritable: storage refused · overwritten: training
was faster than the writing · abandoned: the agent ended first."""


class SaveFailed(MemberEvent):
    """A shard could not be written; nothing of it is left, and training goes on."""

    TYPE: ClassVar[str] = "everstep.checkpoint.save_failed.v1"

    checkpoint: Name
    generation: Generation
    step: Step
    kind: ShardKind
    shard: int = Field(ge=0)
    trouble: SaveTrouble
    attempt: int = Field(ge=1, description="Of writing this shard; a full disk is tried again.")
    detail: Text = ""

    @property
    def dedup_id(self) -> str:
        shard = f"{self.checkpoint}/{self.kind}/{self.shard}/{self.attempt}"
        return f"{self.TYPE}/{self.member.incarnation}/{shard}"


class CheckpointDamaged(MemberEvent):
    """A worker that was to load a checkpoint found that it is not what was written."""

    TYPE: ClassVar[str] = "everstep.checkpoint.damaged.v1"

    checkpoint: Name
    detail: Text

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.checkpoint}"
