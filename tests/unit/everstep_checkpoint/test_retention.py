"""EC-28: which checkpoints may go, and which never do."""

from collections.abc import Collection, Sequence

import pytest
from everstep_checkpoint.retention import Retention, expendable
from everstep_checkpoint.validity import Listed
from everstep_contract.manifest import Marks
from everstep_contract.record import GenerationStart
from hypothesis import given
from hypothesis import strategies as st
from support.checkpoints import save
from support.jobs import NOW

STEPS = (50, 40, 30, 20, 10)


def listed(
    steps: Sequence[int] = STEPS,
    *,
    verified: Collection[int] = STEPS,
    pinned: Collection[int] = (),
    damaged: Collection[int] = (),
) -> list[Listed]:
    return [
        Listed(
            save(1, step),
            Marks(
                verified_at=NOW if step in verified else None,
                pinned=step in pinned,
                damage="cut short" if step in damaged else "",
            ),
        )
        for step in steps
    ]


def gone(own: list[Listed], retention: Retention | None = None) -> list[int]:
    return [one.step for one in expendable(own, retention or Retention())]


def test_two_verified_ones_stay_and_nothing_newer_than_them_goes() -> None:
    assert gone(listed(verified={40, 20})) == [10]


def test_nothing_goes_before_two_are_verified() -> None:
    assert gone(listed(verified={40})) == []


def test_ec28_after_a_save_that_failed_verification_those_before_it_stay() -> None:
    own = listed([10_100, 10_000, 9_900, 800], verified={10_000, 9_900, 800}, damaged={10_100})
    assert gone(own) == [10_100, 800]


def test_the_damaged_stay_until_anything_good_was_read_back() -> None:
    assert gone(listed([50, 40], verified={50}, damaged={50})) == []
    assert gone(listed([50, 40], verified={50, 40}, damaged={50})) == [50]


def test_void_ones_go_once_one_that_is_not_was_read_back() -> None:
    rolled_back = [GenerationStart(generation=2, start_step=20)]
    own = listed([50, 40, 20], verified={50, 40})
    assert expendable(own, Retention(), rolled_back) == ()
    own = listed([50, 40, 20], verified={50, 40, 20})
    assert [one.step for one in expendable(own, Retention(), rolled_back)] == [50, 40]


def test_pins_and_every_so_many_steps_stay() -> None:
    assert gone(listed(pinned={10}), Retention(keep_every=20)) == [30]


def test_what_is_being_read_stays() -> None:
    going = expendable(listed(), Retention(), busy={"g1-s10"})
    assert [one.step for one in going] == [20, 30]


def test_a_byte_budget_lets_the_oldest_go_only_until_it_is_kept() -> None:
    assert gone(listed(), Retention(max_bytes=35)) == [10, 20]
    assert gone(listed(), Retention(max_bytes=35).without_budget()) == [10, 20, 30]


@given(
    steps=st.lists(st.integers(1, 60), unique=True, max_size=12),
    verified=st.sets(st.integers(1, 60)),
    pinned=st.sets(st.integers(1, 60)),
    damaged=st.sets(st.integers(1, 60)),
    keep_last=st.integers(2, 4),
    max_bytes=st.none() | st.integers(0, 100),
)
def test_the_verified_ones_and_the_pins_always_stay(
    steps: list[int],
    verified: set[int],
    pinned: set[int],
    damaged: set[int],
    keep_last: int,
    max_bytes: int | None,
) -> None:
    own = listed(steps, verified=verified, pinned=pinned, damaged=damaged)
    going = gone(own, Retention(keep_last=keep_last, max_bytes=max_bytes))
    left = set(steps) - set(going)
    assert pinned & set(steps) <= left
    proven = sorted((verified - damaged) & set(steps), reverse=True)[:keep_last]
    assert set(proven) <= left
    good = sorted(set(steps) - damaged, reverse=True)
    assert set(good[: len(proven)]) <= left


@pytest.mark.parametrize("wrong", [{"keep_last": 1}, {"keep_last": 0}, {"keep_every": -1}])
def test_a_retention_that_could_lose_everything_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=str(next(iter(wrong.values())))):
        Retention(**wrong)
