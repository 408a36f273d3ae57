"""What the indexer reasons about: checkpoints whose shards are coming in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.identity import JobKey


class Attempt(NamedTuple):
    """One attempt to save one checkpoint; shards of two attempts never make one together."""

    job: JobKey
    job_uid: str
    checkpoint: str
    generation: int
    step: int
    shards: int


@dataclass(frozen=True)
class Complete:
    """An attempt of which every shard is prepared; ``shards`` in order."""

    attempt: Attempt
    shards: tuple[ShardPrepared, ...]


@dataclass(frozen=True)
class Gathering:
    """Shards that came in, by attempt and index, of attempts that are not complete."""

    pending: Mapping[Attempt, Mapping[int, ShardPrepared]] = field(default_factory=dict)
