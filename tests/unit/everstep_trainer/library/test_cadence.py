"""When snapshots and checkpoints are due."""

import pytest
from everstep_trainer.library.cadence import (
    CHECKPOINT_EVERY,
    PLAN_AFTER,
    TRIAL_AFTER,
    Pacer,
    Wish,
)
from everstep_trainer.library.errors import LaunchError

ROOT = {"EVERSTEP_CHECKPOINT_ROOT": "/checkpoints"}
SECOND = 1_000_000_000


def due(pacer: Pacer, steps: int, optimizers: int = 1) -> dict[int, str]:
    found = {step: pacer.due(step, optimizers) for step in range(steps)}
    return {step: what for step, what in found.items() if what is not None}


def test_what_the_script_says_is_done() -> None:
    pacer = Pacer(Wish.of(2, 4, ROOT))
    assert due(pacer, 9) == {
        0: "snapshot",
        2: "snapshot",
        4: "checkpoint",
        6: "snapshot",
        8: "checkpoint",
    }


def test_without_a_folder_there_are_no_checkpoints_and_a_whole_step_needs_no_snapshot() -> None:
    assert due(Pacer(Wish.of(None, None, {})), 100) == {}
    assert due(Pacer(Wish.of(None, None, {})), 41, optimizers=2) == dict.fromkeys(
        (0, 20, 40), "snapshot"
    )


@pytest.mark.parametrize(
    ("wish", "optimizers", "keeps"),
    [
        (Wish.of(None, None, {}), 1, False),
        (Wish.of(None, None, {}), 2, True),
        (Wish.of(5, None, {}), 1, True),
        (Wish.of(0, None, ROOT), 1, True),
        (Wish.of(0, 0, ROOT), 2, False),
    ],
)
def test_whether_anything_is_ever_kept_is_known_before_the_first_step(
    wish: Wish, optimizers: int, keeps: bool
) -> None:
    assert Pacer(wish).keeps_any(optimizers) == keeps


def test_checkpoints_without_a_folder_are_refused() -> None:
    with pytest.raises(LaunchError, match="checkpoint_every is 5, but EVERSTEP_CHECKPOINT_ROOT"):
        Wish.of(None, 5, {})


def test_who_trains_alone_needs_no_folder_for_checkpoints_that_nobody_would_commit() -> None:
    assert Wish.of(None, 5, {}, is_alone=True) == Wish(None, 5)


@pytest.mark.parametrize("numbers", [(-1, None), (None, -1), (None, 10.5)])
def test_a_number_that_is_none_of_steps_is_refused(numbers: tuple[int | None, int | None]) -> None:
    with pytest.raises(LaunchError, match=r"_every is (-1|10\.5): a whole number of steps"):
        Wish.of(*numbers, ROOT)


def test_what_is_left_open_follows_the_slowest_ranks_measurements() -> None:
    pacer = Pacer(Wish.of(None, None, ROOT))
    pacer.begin(200, members=8)
    assert pacer.due(200 + TRIAL_AFTER, 1) == "checkpoint"
    assert pacer.due(2 * CHECKPOINT_EVERY, 1) == "checkpoint"
    assert [step for step in range(200, 300) if pacer.plans_at(step)] == [208, 264]
    measured = [[SECOND, SECOND // 10, 0], [2 * SECOND, SECOND // 20, 30 * SECOND]]
    assert pacer.follow(measured).startswith("a snapshot every 5 steps")
    assert pacer.follow(measured) == ""
    snapshots = [step for step in range(208, 230) if pacer.due(step, 1)]
    assert snapshots == list(range(210, 230, 5))  # 0.1 s of every 10 s is 1 %


def test_two_ranks_that_began_together_plan_alike_whatever_they_knew_before() -> None:
    old, newcomer = Pacer(Wish.of(None, None, ROOT)), Pacer(Wish.of(None, None, ROOT))
    old.begin(0, members=2)
    old.follow([[SECOND, SECOND, SECOND]])
    for pacer in (old, newcomer):
        pacer.begin(50, members=2)
    assert due(old, 400) == due(newcomer, 400)
    assert PLAN_AFTER[0] > TRIAL_AFTER
