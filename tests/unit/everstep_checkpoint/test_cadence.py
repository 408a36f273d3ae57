"""How often to save, against what is published, what is exact, and a simulation."""

import math
import random
from dataclasses import replace

import pytest
from everstep_checkpoint.cadence import (
    LONGEST_SECONDS,
    MOST_STALL_SHARE,
    MOST_STEPS,
    Cadence,
    Measured,
    daly_seconds,
    goodput,
    job_mtbf_seconds,
    plan,
    young_seconds,
)
from hypothesis import given
from hypothesis import strategies as st

MINUTE, HOUR = 60.0, 3600.0
JOB = Measured(
    step_seconds=0.5,
    stall_seconds=2.0,
    flush_seconds=20.0,
    mtbf_seconds=6 * HOUR,
    restart_seconds=MINUTE,
)


def planned(measured: Measured) -> Cadence:
    cadence = plan(measured)
    assert cadence is not None
    return cadence


@pytest.mark.parametrize(
    ("mtbf_seconds", "published_minutes"), [(24 * HOUR, 117), (6 * HOUR, 57), (15 * MINUTE, 9.1)]
)
def test_the_higher_order_gives_what_daly_published(
    mtbf_seconds: float, published_minutes: float
) -> None:
    """His figures 3, 4 and 5: five minutes for a dump."""
    found = daly_seconds(5 * MINUTE, mtbf_seconds) / MINUTE
    assert found == pytest.approx(published_minutes, rel=0.006)


def test_the_first_order_is_youngs_root() -> None:
    assert young_seconds(50.0, 10_000.0) == 1000.0


def test_with_failures_faster_than_saves_the_higher_order_is_the_mtbf() -> None:
    assert daly_seconds(20.0, 10.0) == 10.0


@pytest.mark.parametrize("mtbf_seconds", [2 * MINUTE, HOUR, 24 * HOUR])
@pytest.mark.parametrize("stall_seconds", [0.1, 2.0, MINUTE])
def test_the_higher_order_is_within_a_thousandth_of_the_exact_optimum(
    stall_seconds: float, mtbf_seconds: float
) -> None:
    """By Lambert's function: tau/M = 1 + W(-exp(-1 - delta/M)), here by bisection."""
    measured = replace(JOB, stall_seconds=stall_seconds, mtbf_seconds=mtbf_seconds)
    best = goodput(exact_seconds(stall_seconds, mtbf_seconds), measured)
    found = goodput(daly_seconds(stall_seconds, mtbf_seconds), measured)
    assert 0.999 <= found / best <= 1 + 1e-12


def exact_seconds(stall_seconds: float, mtbf_seconds: float) -> float:
    """Where the derivative of the exact cost is zero."""
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if (1 - middle) * math.exp(middle + stall_seconds / mtbf_seconds) > 1:
            low = middle
        else:
            high = middle
    return low * mtbf_seconds


def simulated_goodput(interval_seconds: float, measured: Measured, failures: int) -> float:
    """Train, stall, write in the background, fail at random moments, go back to the disk."""
    randomly = random.Random(1)
    clock_seconds = done_seconds = 0.0
    cycle_seconds = interval_seconds + measured.stall_seconds
    for _ in range(failures):
        life_seconds = randomly.expovariate(1 / measured.mtbf_seconds)
        clock_seconds += life_seconds
        trained_seconds = life_seconds - measured.restart_seconds - measured.flush_seconds
        durable = max(0, math.floor(trained_seconds / cycle_seconds))
        done_seconds += durable * interval_seconds
    return done_seconds / clock_seconds


def test_the_expected_goodput_is_what_a_simulation_finds() -> None:
    interval_seconds = daly_seconds(JOB.stall_seconds, JOB.mtbf_seconds)
    found = simulated_goodput(interval_seconds, JOB, failures=100_000)
    assert goodput(interval_seconds, JOB) == pytest.approx(found, rel=0.005)


@pytest.mark.parametrize("factor", [0.2, 0.5, 2.0, 5.0])
def test_no_other_interval_does_better_in_a_simulation(factor: float) -> None:
    chosen_seconds = planned(JOB).checkpoint_seconds
    best = simulated_goodput(chosen_seconds, JOB, failures=20_000)
    assert simulated_goodput(chosen_seconds * factor, JOB, failures=20_000) < best


def test_snapshots_cost_no_more_than_their_share() -> None:
    cadence = planned(JOB)
    assert cadence.snapshot_every == 396
    assert cadence.stall_share == pytest.approx(MOST_STALL_SHARE)


def test_where_a_snapshot_costs_next_to_nothing_every_step_has_one() -> None:
    assert planned(replace(JOB, stall_seconds=0.001)).snapshot_every == 1


def test_a_checkpoint_is_never_due_before_the_last_one_is_written() -> None:
    cadence = planned(replace(JOB, stall_seconds=0.001, flush_seconds=500.0))
    assert cadence.checkpoint_every == 1000
    assert cadence.because == "flush"


def test_a_job_that_hardly_fails_is_saved_all_the_same() -> None:
    cadence = planned(replace(JOB, mtbf_seconds=math.inf))
    assert cadence.because == "longest"
    assert cadence.checkpoint_seconds == pytest.approx(LONGEST_SECONDS, rel=0.1)


def test_more_members_fail_more_often() -> None:
    assert job_mtbf_seconds(100.0, 4) == 25.0


def test_without_a_measured_step_there_is_no_plan() -> None:
    assert plan(replace(JOB, step_seconds=0.0)) is None


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(st.builds(Measured, numbers, numbers, numbers, numbers, numbers), numbers)
def test_whatever_was_measured_a_plan_keeps_its_bounds(measured: Measured, share: float) -> None:
    cadence = plan(measured, most_stall_share=share)
    if cadence is None:
        assert not measured.step_seconds >= 1e-9
        return
    assert 1 <= cadence.snapshot_every <= MOST_STEPS
    assert cadence.checkpoint_every % cadence.snapshot_every == 0
    assert 0 <= cadence.goodput <= 1


@given(st.floats(0.01, 100), st.floats(0, 10), st.floats(0, 10_000), st.floats(1, 1e9))
def test_a_plan_waits_for_the_flush_and_keeps_the_share(
    step: float, stall: float, flush: float, mtbf: float
) -> None:
    cadence = planned(Measured(step, stall, flush, mtbf))
    assert cadence.checkpoint_seconds >= flush * (1 - 1e-12)
    assert cadence.stall_share <= MOST_STALL_SHARE * (1 + 1e-12)
