"""R26: which checkpoints are good, and which may go."""

import pytest
from everstep_checkpoint.validity import Retention, eligible, expendable, is_void
from everstep_contract.manifest import Manifest, ShardFile
from everstep_contract.record import GenerationStart
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import JOB, NOW

LINEAGE = "uid-1"


def save(generation: int, step: int, *starts: tuple[int, int], lineage: str = LINEAGE) -> Manifest:
    return Manifest(
        job=JOB,
        checkpoint=f"g{generation}-s{step}",
        lineage=lineage,
        generation=generation,
        step=step,
        shards=(ShardFile(file="0-a.safetensors", total_bytes=10, xxh3_128="0" * 32),),
        history=tuple(GenerationStart(generation=g, start_step=s) for g, s in starts),
        committed_at=NOW,
    )


def names(manifests: tuple[Manifest, ...]) -> list[str]:
    return [manifest.checkpoint for manifest in manifests]


def test_r26_a_save_past_its_successors_start_is_void() -> None:
    starts = [GenerationStart(generation=2, start_step=100)]
    assert is_void(save(1, 101), starts)
    assert not is_void(save(1, 100), starts)
    assert not is_void(save(2, 150), starts)


def test_r26_the_breakpoint_save_of_a_broken_generation_is_good() -> None:
    starts = [GenerationStart(generation=g, start_step=s) for g, s in ((1, 0), (2, 100), (3, 180))]
    assert is_void(save(1, 150), starts)
    assert not is_void(save(1, 150), [*starts[:1], GenerationStart(generation=2, start_step=150)])
    assert not is_void(save(2, 150), starts)


def test_r26_an_abandoned_future_stays_abandoned_when_only_manifests_are_left() -> None:
    known = [save(1, 100), save(1, 150), save(2, 120, (1, 0), (2, 100))]
    assert names(eligible(known, LINEAGE)) == ["g2-s120", "g1-s100"]


def test_another_lineage_of_the_same_name_is_never_chosen() -> None:
    assert names(eligible([save(9, 900, lineage="uid-0"), save(1, 10)], LINEAGE)) == ["g1-s10"]


def kept_but(going: tuple[Manifest, ...], of: list[Manifest]) -> list[int]:
    return [one.step for one in of if one not in going]


def test_two_verified_ones_stay_and_nothing_newer_than_them_goes() -> None:
    saves = [save(1, step) for step in (50, 40, 30, 20, 10)]
    going = expendable(saves, Retention(), verified={"g1-s40", "g1-s20"}, pinned=())
    assert kept_but(going, saves) == [50, 40, 30, 20]


def test_nothing_goes_before_two_are_verified() -> None:
    saves = [save(1, step) for step in (50, 40, 30)]
    assert expendable(saves, Retention(), verified={"g1-s40"}, pinned=()) == ()


def test_pins_and_every_so_many_steps_stay() -> None:
    saves = [save(1, step) for step in (50, 40, 30, 20, 10)]
    verified = {one.checkpoint for one in saves}
    going = expendable(saves, Retention(keep_every=20), verified=verified, pinned={"g1-s10"})
    assert [one.step for one in going] == [30]


def test_a_byte_budget_lets_the_oldest_go_only_until_it_is_kept() -> None:
    saves = [save(1, step) for step in (50, 40, 30, 20, 10)]
    verified = {one.checkpoint for one in saves}
    going = expendable(saves, Retention(max_bytes=35), verified=verified, pinned=())
    assert [one.step for one in going] == [10, 20]


@given(
    steps=st.lists(st.integers(1, 60), unique=True, max_size=12),
    verified=st.sets(st.integers(1, 60)),
    pinned=st.sets(st.integers(1, 60)),
    keep_last=st.integers(2, 4),
    max_bytes=st.none() | st.integers(0, 100),
)
def test_the_verified_ones_and_the_pins_always_stay(
    steps: list[int],
    verified: set[int],
    pinned: set[int],
    keep_last: int,
    max_bytes: int | None,
) -> None:
    saves = list(eligible([save(1, step) for step in steps], LINEAGE))
    going = expendable(
        saves,
        Retention(keep_last=keep_last, max_bytes=max_bytes),
        verified={f"g1-s{step}" for step in verified},
        pinned={f"g1-s{step}" for step in pinned},
    )
    left = [one.step for one in saves if one not in going]
    assert pinned & set(steps) <= set(left)
    proven = sorted(verified & set(steps), reverse=True)[:keep_last]
    assert set(proven) <= set(left)
    assert left[: len(proven)] == sorted(left, reverse=True)[: len(proven)]


@pytest.mark.parametrize("wrong", [{"keep_last": 1}, {"keep_every": -1}])
def test_a_retention_that_could_lose_everything_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        Retention(**wrong)
