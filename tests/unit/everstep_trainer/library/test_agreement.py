"""Which state a new generation goes on from."""

import pytest
from everstep_trainer.library.agreement import (
    NOTHING,
    Agreement,
    Standing,
    Version,
    agree,
    begin,
    shared,
    shared_streams,
    steps_lost,
)
from everstep_trainer.library.errors import ReplicasDifferError, StateLostError
from hypothesis import given
from hypothesis import strategies as st

versions = st.builds(Version, st.integers(1, 3), st.integers(0, 4)) | st.just(NOTHING)


def holds(version: Version = NOTHING, *, snapshot: Version = NOTHING, newest: int = -1) -> Standing:
    return Standing(version, snapshot, max(newest, version.step), structure=7, streams=(1, 2))


def agreed_of(*standings: Standing) -> Agreement:
    agreed = agree(standings)
    assert agreed is not None
    return agreed


def test_r22_equal_replicas_copy_nothing() -> None:
    agreed = agreed_of(*[holds(Version(1, 9))] * 3)
    assert agreed == Agreement(Version(1, 9), sources=(0, 1, 2), receivers=())


def test_r22_the_newest_whole_replica_wins() -> None:
    agreed = agreed_of(holds(Version(1, 8)), holds(Version(1, 9)), holds())
    assert (agreed.version, agreed.sources, agreed.receivers) == (Version(1, 9), (1,), (0, 2))


def test_r22_a_step_that_was_done_again_without_a_worker_wins_over_that_workers_own() -> None:
    agreed = agreed_of(holds(Version(2, 9)), holds(Version(1, 9)))
    assert agreed.receivers == (1,)


def test_r22_without_a_whole_replica_something_has_to_be_loaded() -> None:
    torn = [holds(snapshot=Version(1, 6), newest=9), holds(snapshot=Version(1, 8), newest=9)]
    assert agree(torn) is None
    loaded = shared(Version(1, 8), [False, True], "memory")
    assert (loaded.sources, loaded.receivers) == ((1,), (0,))
    assert [steps_lost(standing, loaded) for standing in torn] == [1, 1]


def test_r22_a_job_that_never_had_a_state_begins_at_step_0_with_the_first_ranks_models() -> None:
    agreed = begin([holds(), holds(), holds()])
    assert agreed == Agreement(Version(0, 0), sources=(0,), receivers=(1, 2), source="fresh")


def test_r22_steps_that_were_done_are_never_silently_begun_again() -> None:
    with pytest.raises(StateLostError, match="step 9 was reached"):
        begin([holds(newest=9), holds()])
    with pytest.raises(StateLostError, match="step 0 was reached"):
        begin([holds(newest=0), holds()])


def test_ec55_only_what_is_random_alike_on_all_ranks_is_shared() -> None:
    here = Standing(Version(1, 9), NOTHING, 9, structure=7, streams=(1, 2))
    there = Standing(Version(1, 9), NOTHING, 9, structure=7, streams=(1, 5))
    assert shared_streams([here, there], agreed_of(here, there)) == (True, False)
    assert shared_streams([here], agreed_of(here)) is None


def test_ranks_that_track_other_things_are_named() -> None:
    other = Standing(Version(1, 9), NOTHING, 9, structure=8, streams=(1, 2))
    with pytest.raises(ReplicasDifferError, match=r"ranks \[1\] track other objects"):
        agree([holds(Version(1, 9)), other])


@given(versions, versions, st.integers(-1, 9), st.integers(0, 1 << 56))
def test_a_standing_survives_as_numbers(
    version: Version, snapshot: Version, newest: int, structure: int
) -> None:
    standing = Standing(version, snapshot, newest, structure, streams=(3, 4))
    assert Standing.from_numbers(standing.to_numbers()) == standing


@given(st.lists(versions, min_size=1, max_size=6))
def test_r22_everybody_ends_at_the_same_version_and_no_source_is_behind(
    held: list[Version],
) -> None:
    if all(version == NOTHING for version in held):
        return
    agreed = agreed_of(*[holds(version) for version in held])
    after = [agreed.version if n in agreed.receivers else v for n, v in enumerate(held)]
    assert set(after) == {max(held)}
    assert not set(agreed.sources) & set(agreed.receivers)
