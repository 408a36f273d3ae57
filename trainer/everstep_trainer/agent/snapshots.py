"""What the agent's core knows of snapshots: those it saw, and those on their way to storage."""

from dataclasses import dataclass, field, replace
from typing import Final

from everstep_contract.identity import Endpoint
from everstep_contract.manifest import ShardKind, checkpoint_name

REMEMBERED: Final = 2
"""Durable snapshots remembered of each shard: no more than two can be in memory."""
Place = tuple[str, int, ShardKind]
"""Whose it is, by incarnation if it is not ours, of which worker, and which of its two."""


@dataclass(frozen=True)
class Snapshot:
    """A whole shard in memory: ``shard`` of ``shards`` of its kind.

    origin: incarnation of the member that gave it to this one to keep, or our own for a copy of
    what we gave; empty: it is our worker's. marked: all members were asked to keep this step.
    """

    local_rank: int
    kind: ShardKind
    generation: int
    step: int
    shard: int
    shards: int
    total_bytes: int
    origin: str = ""
    marked: bool = field(default=False, compare=False)

    @property
    def version(self) -> tuple[int, int]:
        """What snapshots of one job are ordered by."""
        return self.generation, self.step

    @property
    def place(self) -> Place:
        """Whose it is, and which of its two."""
        return self.origin, self.local_rank, self.kind

    @property
    def part(self) -> tuple[ShardKind, int, int, int, int]:
        """What it is of which checkpoint, wherever it lies."""
        return self.kind, self.shard, self.shards, self.generation, self.step

    @property
    def checkpoint(self) -> str:
        """The checkpoint that it becomes a shard of."""
        return checkpoint_name(self.generation, self.step)


@dataclass(frozen=True)
class Due:
    """A worker says that its snapshot of this step is to be durable."""

    local_rank: int
    generation: int
    step: int
    kinds: tuple[ShardKind, ...]


@dataclass(frozen=True)
class Breakpoint:
    """A generation breaks off: what is newest in memory is to be durable.

    ``writes_state``: of all members that hold the same state this one writes it. ``has_lost``:
    members are lost. ``kept_for``: those whose partner this one is: it saves what is theirs.
    ``heals``: others go on, and that goes first.
    """

    writes_state: bool
    has_lost: bool = False
    kept_for: tuple[str, ...] = ()
    heals: bool = False


@dataclass(frozen=True)
class Handover:
    """It is time to give the partner what nobody else has."""


Occasion = Due | Breakpoint | Handover


@dataclass(frozen=True)
class Save:
    """A snapshot on its way to storage.

    attempt: of writing it. keep_until: monotonic seconds; until then training does not write over
    it while there is no room for it. retry_at: when it is tried again; None: it is being written.
    """

    snapshot: Snapshot
    attempt: int = 1
    keep_until: float = 0.0
    retry_at: float | None = None


@dataclass(frozen=True)
class Saves:
    """All saves of an agent; ``looking``: times the memory is still to be looked at."""

    under_way: tuple[Save, ...] = ()
    durable: tuple[Snapshot, ...] = ()
    looking: int = 0
    bytes_per_second: float = 0.0

    @property
    def unfinished(self) -> bool:
        """Whether something may still become durable."""
        return bool(self.under_way or self.looking)

    def find(self, snapshot: Snapshot) -> Save | None:
        """The save of this snapshot, if it is under way."""
        return next((save for save in self.under_way if save.snapshot == snapshot), None)

    def without(self, snapshot: Snapshot) -> "Saves":
        """What is left when this one is no longer under way."""
        left = tuple(save for save in self.under_way if save.snapshot != snapshot)
        return replace(self, under_way=left)

    def having(self, save: Save) -> "Saves":
        """With this one under way, in its place or as the last."""
        if self.find(save.snapshot) is None:
            return replace(self, under_way=(*self.under_way, save))
        changed = tuple(save if one.snapshot == save.snapshot else one for one in self.under_way)
        return replace(self, under_way=changed)

    def with_durable(self, snapshot: Snapshot) -> "Saves":
        """It lies on storage."""
        same = [one for one in self.durable if one.place == snapshot.place]
        others = [one for one in self.durable if one.place != snapshot.place]
        return replace(self, durable=(*others, *[*same, snapshot][-REMEMBERED:]))


@dataclass(frozen=True)
class Gift:
    """A snapshot that goes to this peer."""

    snapshot: Snapshot
    to: Endpoint


@dataclass(frozen=True)
class Giving:
    """What the partner keeps for this member.

    given: of each place the newest that it has acknowledged. places: all that it is to keep.
    replicated: the newest generation and step of which it has them all. is_alone: there is no
    partner. every: steps between two that all members copy; 0: each copies its newest.
    began_at: monotonic seconds; since then the parts of one step are sent. seconds: what all of
    one step took. looked_at: monotonic seconds. skipped: how many were not kept.
    """

    given: tuple[Snapshot, ...] = ()
    under_way: Gift | None = None
    places: tuple[Place, ...] = ()
    replicated: tuple[int, int] | None = None
    is_alone: bool = False
    every: int = 0
    began_at: float = 0.0
    seconds: float = 0.0
    looked_at: float = float("-inf")
    skipped: int = 0

    def replicated_step(self, generation: int) -> int | None:
        """The newest step of a generation of which the partner has all; None: there is none."""
        if self.replicated is None or self.replicated[0] != generation:
            return None
        return self.replicated[1]

    def with_given(self, snapshot: Snapshot, now: float) -> "Giving":
        """The partner keeps this one since ``now``."""
        given = (*(one for one in self.given if one.place != snapshot.place), snapshot)
        same = {one.place for one in given if one.version == snapshot.version}
        if not same.issuperset(self.places):
            return replace(self, given=given)
        seconds = now - self.began_at
        return replace(self, given=given, replicated=snapshot.version, seconds=seconds)
