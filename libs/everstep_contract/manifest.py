"""The manifest of a checkpoint: what is complete, which bytes exactly, of which future (R26)."""

from typing import Literal

from pydantic import AwareDatetime, Field

from everstep_contract.base import Generation, Model, Name, Step, Text
from everstep_contract.identity import JobKey
from everstep_contract.record import MAX_HISTORY, GenerationStart

Digest = str
"""xxh3_128 of a file, 32 hexadecimal digits."""
ShardKind = Literal["state", "rank"]
"""state: a part of what all ranks share or have split up · rank: what one rank has for itself, such
as its random states."""
Standing = Literal["newest", "good", "void", "damaged"]
"""newest: what its job would be restored from · void: of a future that was given up (R26)."""


class ShardFile(Model):
    """One file of a checkpoint; its name carries the incarnation that wrote it."""

    kind: ShardKind = "state"
    shard: int = Field(default=0, ge=0, description="Of its kind; of a rank's own, the rank.")
    file: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._=-]{0,254}$", description="Without folder.")
    total_bytes: int = Field(ge=0)
    xxh3_128: Digest = Field(pattern=r"^[0-9a-f]{32}$")


class Manifest(Model):
    """A committed checkpoint: only what lies beside one is complete.

    ``history`` are the starts of the job's generations as they were known at the commit, so that
    validity can be told from the manifests alone.
    """

    format: Literal[1] = 1
    job: JobKey
    checkpoint: Name
    lineage: Name = Field(description="The job's uid.")
    generation: Generation
    step: Step
    world_size: int = Field(default=1, ge=1, description="Ranks of the generation that saved.")
    shards: tuple[ShardFile, ...] = Field(min_length=1, description="State's first, in order.")
    history: tuple[GenerationStart, ...] = Field(default=(), max_length=MAX_HISTORY)
    committed_at: AwareDatetime

    @property
    def total_bytes(self) -> int:
        """Of all shards."""
        return sum(shard.total_bytes for shard in self.shards)

    @property
    def is_import(self) -> bool:
        """Whether somebody brought it in: generations of a job's own begin at 1."""
        return self.generation == 0

    def of_kind(self, kind: ShardKind) -> tuple[ShardFile, ...]:
        """The shards of one kind, in order."""
        return tuple(shard for shard in self.shards if shard.kind == kind)


class Marks(Model):
    """What became known of a checkpoint after its commit; lies beside its manifest."""

    verified_at: AwareDatetime | None = Field(
        default=None, description="When it was last read back whole."
    )
    damage: Text = Field(default="", description="What is wrong with it; empty: nothing known.")
    pinned: bool = Field(default=False, description="Somebody wants it kept.")


def checkpoint_name(generation: int, step: int) -> str:
    """What the save of a generation's state at a step is called, whoever names it."""
    return f"g{generation}-s{step}"
