"""What is read from the workers' own logs."""

import json

import pytest
from everstep_cli.drill.worker_logs import (
    StepLine,
    first_step_of,
    losses,
    median_step_seconds,
    steps_lost,
    steps_of,
    workers_kept,
)


def line(pid: int, generation: int, step: int, **changed: float) -> StepLine:
    """A step of the worker with this pid; its rank is its pid, and each step lasts a second."""
    fields = {"at": float(step), "loss": 5.0 - step / 10} | changed
    return StepLine(pid=pid, rank=pid, world_size=2, generation=generation, step=step, **fields)


def test_a_line_cut_short_is_no_step() -> None:
    whole = json.dumps({"event": "step", "wall": 1.0} | vars(line(0, 1, 1)))
    assert steps_of([whole, whole[:20], '{"event": "start"}']) == (line(0, 1, 1),)


def test_a_step_done_again_after_a_change_of_generation_is_lost() -> None:
    assert steps_lost([line(0, 1, 1), line(0, 1, 2), line(0, 2, 2), line(0, 2, 3)]) == 1


def test_going_on_with_the_next_step_loses_none() -> None:
    assert steps_lost([line(0, 1, 1), line(0, 1, 2), line(0, 2, 3)]) == 0


def test_a_step_that_only_the_dead_had_completed_is_not_lost() -> None:
    assert steps_lost([line(0, 1, 1), line(1, 1, 2), line(0, 2, 2)]) == 0


def test_steps_of_workers_that_were_all_replaced_are_lost() -> None:
    assert steps_lost([line(0, 1, 1), line(0, 1, 2), line(7, 2, 1)]) == 2


def test_a_worker_that_nobody_hurt_and_that_is_gone_was_not_kept() -> None:
    steps = [line(0, 1, 1), line(1, 1, 1), line(2, 1, 1), line(0, 2, 2)]
    assert not workers_kept(steps, frozenset({2}))
    assert workers_kept(steps, frozenset({1, 2}))


def test_the_pace_is_the_median_before_the_fault_without_warm_up() -> None:
    steps = [line(0, 1, n, at=at) for n, at in enumerate((0.0, 9.0, 18.0, 19.0, 21.0, 24.0, 99.0))]
    assert median_step_seconds(steps, until=30.0) == 2.0


def test_losses_are_means_of_the_first_and_the_last_steps() -> None:
    assert losses([line(0, 1, n) for n in range(10)]) == pytest.approx((4.8, 4.3))


def test_a_generation_that_took_no_step_is_answered_by_the_next() -> None:
    assert first_step_of([line(0, 1, 1), line(0, 3, 2)], 2) == line(0, 3, 2)
