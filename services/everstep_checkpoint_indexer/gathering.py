"""When a checkpoint is complete: shards come in one by one, in any order, and some never. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from everstep_contract.facts.checkpoint import ShardPrepared

from everstep_checkpoint_indexer.model import Attempt, Complete, Gathering, Parts, Place, Policy

MAX_PENDING: Final = 1024
"""Incomplete attempts remembered; an older one was abandoned by its writers."""
MAX_DONE: Final = 4096
"""Finished attempts remembered, so that shards that come late do not begin them anew."""
FIRST_RETRY_SECONDS: Final = 1.0
MAX_RETRY_SECONDS: Final = 60.0
"""Between two tries of a commit that storage had no room for, doubled from the first."""


def gather(gathering: Gathering, fact: ShardPrepared, now: float) -> Gathering:
    """Take one shard in."""
    attempt = attempt_of(fact)
    if attempt in gathering.done:
        return gathering
    place = Place(fact.kind, fact.shards, fact.shard)
    pending = dict(gathering.pending)
    parts = pending.pop(attempt, Parts({}, now))
    parts = replace(parts, shards={place: fact, **parts.shards}, touched_at=now)
    if parts.whole_at is None and _whole(parts.shards, "state"):
        parts = replace(parts, whole_at=now)
    pending[attempt] = parts
    while len(pending) > MAX_PENDING:
        del pending[next(iter(pending))]
    return replace(gathering, pending=pending)


def ready(gathering: Gathering, policy: Policy, now: float) -> tuple[Complete, ...]:
    """What is to be committed now; what came last first, since a job is restored from that."""
    return tuple(
        _complete(attempt, parts)
        for attempt, parts in reversed(tuple(gathering.pending.items()))
        if (at := _ready_at(parts, policy)) is not None and at <= now
    )


def next_ready_at(gathering: Gathering, policy: Policy) -> float | None:
    """When the next one is to be committed if no shard comes; None: never."""
    times = (_ready_at(parts, policy) for parts in gathering.pending.values())
    return min((at for at in times if at is not None), default=None)


def finished(gathering: Gathering, *attempts: Attempt) -> Gathering:
    """They were committed, or never will be; whatever comes of them now changes nothing."""
    pending = {one: parts for one, parts in gathering.pending.items() if one not in attempts}
    done = {**gathering.done, **dict.fromkeys(attempts)}
    while len(done) > MAX_DONE:
        del done[next(iter(done))]
    return Gathering(pending, done)


def postponed(gathering: Gathering, attempt: Attempt, now: float) -> Gathering:
    """It could not be committed yet."""
    parts = gathering.pending.get(attempt)
    if parts is None:  # so many came in since that it was forgotten
        return gathering
    wait_seconds = min(FIRST_RETRY_SECONDS * 2**parts.failures, MAX_RETRY_SECONDS)
    again = replace(
        parts, touched_at=now, failures=parts.failures + 1, not_before=now + wait_seconds
    )
    return replace(gathering, pending={**gathering.pending, attempt: again})


def without_idle(gathering: Gathering, policy: Policy, now: float) -> Gathering:
    """Forget attempts to which nothing has come for so long that nothing will."""
    live = {
        attempt: parts
        for attempt, parts in gathering.pending.items()
        if now - parts.touched_at < policy.idle_seconds
    }
    return replace(gathering, pending=live)


def attempt_of(fact: ShardPrepared) -> Attempt:
    """Which attempt a shard belongs to."""
    return Attempt(fact.job, fact.member.job_uid, fact.checkpoint, fact.generation, fact.step)


def _ready_at(parts: Parts, policy: Policy) -> float | None:
    if parts.whole_at is None:
        return None
    patience = 0.0 if _whole(parts.shards, "rank") else policy.rank_patience_seconds
    return max(parts.whole_at + patience, parts.not_before)


def _whole(shards: Mapping[Place, ShardPrepared], kind: str) -> int:
    """How many shards of this kind make a whole, if all of them are there; else 0."""
    counts = {place.shards for place in shards if place.kind == kind}
    whole = [count for count in counts if _has_all(shards, kind, count)]
    return max(whole, default=0)


def _has_all(shards: Mapping[Place, ShardPrepared], kind: str, count: int) -> bool:
    return sum(place.kind == kind and place.shards == count for place in shards) == count


def _complete(attempt: Attempt, parts: Parts) -> Complete:
    """All of the state, and of the ranks' own those of the largest world that any tells of."""
    count = _whole(parts.shards, "state")
    world_size = max((place.shards for place in parts.shards if place.kind == "rank"), default=0)
    wanted = (("state", count), ("rank", world_size))
    places = [place for place in parts.shards if (place.kind, place.shards) in wanted]
    places.sort(key=lambda place: (wanted.index((place.kind, place.shards)), place.shard))
    return Complete(attempt, max(1, world_size), tuple(parts.shards[place] for place in places))
