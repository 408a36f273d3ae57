"""When a checkpoint is complete, whatever order its shards come in."""

import pytest
from everstep_checkpoint_indexer.gathering import (
    MAX_PENDING,
    MAX_RETRY_SECONDS,
    attempt_of,
    finished,
    gather,
    next_ready_at,
    postponed,
    ready,
    without_idle,
)
from everstep_checkpoint_indexer.model import Complete, Gathering, Policy
from everstep_contract.facts.checkpoint import ShardPrepared
from hypothesis import given
from hypothesis import strategies as st
from support.checkpoints import shard
from support.jobs import member

POLICY = Policy()
PATIENCE = POLICY.rank_patience_seconds
STATE = (shard(0), shard(1))


def rank(index: int, *, shards: int = 2) -> ShardPrepared:
    path = f"/ckpt/rank-{index}.safetensors"
    return shard(index, kind="rank", shards=shards, path=path)


def gathered(*facts: ShardPrepared, at: float = 0.0) -> Gathering:
    gathering = Gathering()
    for fact in facts:
        gathering = gather(gathering, fact, at)
    return gathering


def complete(*facts: ShardPrepared, now: float = 0.0) -> tuple[Complete, ...]:
    return ready(gathered(*facts), POLICY, now)


@given(st.permutations([*STATE, rank(0), rank(1)]))
def test_with_the_last_of_all_shards_a_checkpoint_is_complete_at_once(
    facts: list[ShardPrepared],
) -> None:
    assert complete(*facts[:-1]) == ()
    (found,) = complete(*facts)
    assert found.shards == (*STATE, rank(0), rank(1))
    assert found.world_size == 2


def test_ranks_that_died_with_their_node_are_waited_for_a_while_and_no_longer() -> None:
    gathering = gathered(*STATE, rank(1, shards=3))
    assert ready(gathering, POLICY, PATIENCE - 0.1) == ()
    assert next_ready_at(gathering, POLICY) == PATIENCE
    (found,) = ready(gathering, POLICY, PATIENCE)
    assert (found.world_size, found.shards) == (3, (*STATE, rank(1, shards=3)))


def test_a_checkpoint_without_any_ranks_shard_is_complete_by_its_state() -> None:
    assert [one.shards for one in complete(*STATE, now=PATIENCE)] == [STATE]


def test_ranks_shards_alone_never_make_a_state() -> None:
    assert complete(rank(0), rank(1), now=1e9) == ()
    assert next_ready_at(gathered(rank(0), rank(1)), POLICY) is None


def test_the_same_shard_twice_is_one_shard() -> None:
    assert complete(shard(0), shard(0), now=PATIENCE) == ()


def test_of_two_writers_of_the_same_shard_the_first_counts() -> None:
    twin = shard(0, member=member(7), path="/ckpt/twin.safetensors")
    (found,) = complete(shard(0), twin, shard(1), now=PATIENCE)
    assert found.shards == STATE


def test_shards_of_states_cut_differently_never_make_one_state() -> None:
    assert complete(shard(0), shard(1, shards=3), now=PATIENCE) == ()


def test_shards_of_different_steps_or_generations_never_make_one_checkpoint() -> None:
    assert complete(shard(0), shard(1, step=200), now=PATIENCE) == ()
    assert complete(shard(0), shard(1, generation=2), now=PATIENCE) == ()


def test_after_a_pause_the_newest_is_committed_first() -> None:
    told = [shard(0, step=step, shards=1) for step in (100, 300, 200)]
    assert [one.attempt.step for one in complete(*told, now=PATIENCE)] == [200, 300, 100]


def test_what_comes_after_the_commit_changes_nothing() -> None:
    gathering = finished(gathered(*STATE), attempt_of(shard(0)))
    assert gather(gathering, rank(0), 9.0) == gathering
    assert next_ready_at(gathering, POLICY) is None


def test_a_commit_without_room_is_tried_again_ever_more_rarely() -> None:
    gathering, attempt, now, waits = gathered(*STATE), attempt_of(shard(0)), 100.0, []
    for _ in range(8):
        gathering = postponed(gathering, attempt, now)
        at = next_ready_at(gathering, POLICY)
        assert at is not None
        assert ready(gathering, POLICY, at - 0.1) == ()
        waits.append(at - now)
        now = at
    assert waits == [1, 2, 4, 8, 16, 32, MAX_RETRY_SECONDS, MAX_RETRY_SECONDS]


def test_what_was_abandoned_is_forgotten_in_the_end() -> None:
    gathering = gathered(*(shard(0, step=step) for step in range(MAX_PENDING + 5)))
    assert len(gathering.pending) == MAX_PENDING
    assert without_idle(gathering, POLICY, POLICY.idle_seconds).pending == {}


@pytest.mark.parametrize("late", [shard(1), rank(0)])
def test_an_attempt_lives_on_with_each_shard(late: ShardPrepared) -> None:
    gathering = gather(gathered(shard(0)), late, POLICY.idle_seconds - 1)
    assert without_idle(gathering, POLICY, POLICY.idle_seconds).pending.keys() == {
        attempt_of(shard(0))
    }
