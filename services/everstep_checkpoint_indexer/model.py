"""What the indexer reasons about: checkpoints whose shards are coming in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from everstep_bus.interface import Bus
from everstep_checkpoint.retention import Retention
from everstep_checkpoint.storage import Storage
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.identity import JobKey
from everstep_contract.manifest import ShardKind
from everstep_runtime.clock import Clock


@dataclass(frozen=True)
class Policy:
    """What a site may choose, and how long is waited for what may never come; seconds.

    Attributes:
        retention: How much is kept.
        rank_patience_seconds: How long ranks' own shards are waited for once the state is whole.
            All are written at the same time as it, and each is some kilobytes; a rank that died
            with its node has none. Longer only delays what a dead rank is missing from.
        idle_seconds: How long nothing may happen to an attempt before it counts as abandoned.
    """

    retention: Retention = field(default_factory=Retention)
    rank_patience_seconds: float = 5.0
    idle_seconds: float = 900.0


@dataclass(frozen=True)
class House:
    """What the service works with."""

    bus: Bus
    storage: Storage
    policy: Policy
    clock: Clock


class Attempt(NamedTuple):
    """One attempt to save one checkpoint; shards of two attempts never make one together."""

    job: JobKey
    job_uid: str
    checkpoint: str
    generation: int
    step: int


class Place(NamedTuple):
    """Where a shard belongs in its checkpoint: ``shard`` of so many of its kind."""

    kind: ShardKind
    shards: int
    shard: int


@dataclass(frozen=True)
class Complete:
    """An attempt that can be committed; ``shards`` in order, those of the state first."""

    attempt: Attempt
    world_size: int
    shards: tuple[ShardPrepared, ...]


@dataclass(frozen=True)
class Parts:
    """What came in of one attempt, and when by a monotonic clock.

    Attributes:
        shards: The first that was told of each place; a second writer's changes nothing.
        touched_at: When the newest came.
        whole_at: When its state became whole; None before.
        failures: How often it could not be committed.
        not_before: When it may be tried again.
    """

    shards: Mapping[Place, ShardPrepared]
    touched_at: float
    whole_at: float | None = None
    failures: int = 0
    not_before: float = 0.0


@dataclass(frozen=True)
class Gathering:
    """Attempts that are not committed, and those that are done with, oldest first."""

    pending: Mapping[Attempt, Parts] = field(default_factory=dict)
    done: Mapping[Attempt, None] = field(default_factory=dict)
