"""Counting completed steps."""

from everstep_trainer.library.versions import NOT_WHOLE, StepCount
from hypothesis import given
from hypothesis import strategies as st

BOTH = frozenset({"first", "second"})


def counting(*, version: int = 5) -> StepCount:
    count = StepCount()
    count.start(version, BOTH)
    return count


def test_r22_a_process_that_was_told_nothing_holds_nothing() -> None:
    assert StepCount().version == NOT_WHOLE


def test_r22_the_state_is_not_whole_inside_an_optimizers_step() -> None:
    count = counting()
    count.stepping("first")
    assert count.version == NOT_WHOLE


def test_r22_the_state_is_not_whole_while_only_one_of_two_optimizers_has_stepped() -> None:
    count = counting()
    count.stepping("first")
    count.stepped("first")
    assert count.version == NOT_WHOLE


def test_r22_the_step_counts_once_every_optimizer_has_stepped() -> None:
    count = counting()
    for name in sorted(BOTH):
        count.stepping(name)
        count.stepped(name)
    assert count.version == 6


def test_r22_a_second_step_of_an_optimizer_is_part_of_no_version_until_completed() -> None:
    count = counting()
    for name in ("first", "second", "first"):
        count.stepping(name)
        count.stepped(name)
    assert count.version == NOT_WHOLE
    count.complete()
    assert count.version == 6


def test_r22_a_step_that_a_gradient_scaler_left_out_is_completed_by_the_scripts_word() -> None:
    count = counting()
    count.complete()
    assert count.version == 6


@given(st.lists(st.sampled_from(sorted(BOTH)), max_size=4), st.booleans())
def test_r22_an_interruption_leaves_a_version_that_the_next_turn_begins_with(
    steps: list[str], inside: bool
) -> None:
    count = counting()
    for name in steps:
        count.stepping(name)
        count.stepped(name)
    if inside:
        count.stepping("first")
    version = count.version
    count.settle()
    assert count.version == count.base == version
    assert version in (NOT_WHOLE, 5, 6)
