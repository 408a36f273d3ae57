"""Facts about checkpoints."""

from typing import ClassVar

from pydantic import Field

from everstep_contract.base import Event, Generation, Name, Step
from everstep_contract.facts.member import MemberEvent
from everstep_contract.identity import JobKey
from everstep_contract.record import CheckpointRecord


class ShardPrepared(MemberEvent):
    """One shard of a checkpoint lies on durable storage, hashed and synced."""

    TYPE: ClassVar[str] = "everstep.checkpoint.shard_prepared.v1"

    checkpoint: Name
    generation: Generation
    step: Step
    shard: int = Field(ge=0)
    shards: int = Field(ge=1)
    path: str = Field(max_length=4096)
    total_bytes: int = Field(ge=0)
    xxh3_128: str = Field(pattern=r"^[0-9a-f]{32}$")

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.checkpoint}/{self.shard}"


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
