"""Whom a drain evicts next, and what it waits for."""

from typing import Any

import pytest
from everstep_contract.verdicts import AwaitReplacement, Suspend
from everstep_rescaler.draining_decide import Evict, Seated, Wait, decide_drain
from support.cluster_states import job, pod
from support.jobs import member, record

GANG = tuple(member(index) for index in range(8))
LEAVING = GANG[0]


def seated(**changes: Any) -> Seated:
    """A member that is seated on the node, of a job of eight that steps."""
    fields: dict[str, Any] = {
        "record": record(8, GANG, phase="resumed"),
        "member": LEAVING,
        "pod": pod(LEAVING),
        "job": job(),
    }
    return Seated(**{**fields, **changes})


def why(*of: Seated) -> str:
    decision = decide_drain(of)
    assert isinstance(decision, Wait)
    return decision.why


def test_a_member_of_a_job_that_steps_above_its_floor_is_evicted() -> None:
    assert decide_drain([seated()]) == Evict(seated())


def test_nobody_is_left_to_evict() -> None:
    assert why() == ""


def test_no_job_goes_below_its_floor() -> None:
    assert "floor of 6" in why(seated(record=record(8, GANG[:6], phase="resumed")))
    assert isinstance(decide_drain([seated(record=record(8, GANG[:7], phase="resumed"))]), Evict)


@pytest.mark.parametrize("phase", ["decided", "formed", "holding"])
def test_nobody_goes_in_the_middle_of_another_change(phase: str) -> None:
    waiting = AwaitReplacement(lost=(), wait_seconds=60.0)
    changing = record(8, GANG, phase=phase, verdict=waiting, state="hold")
    assert "to step on" in why(seated(record=changing))


def test_a_job_that_an_operator_suspended_can_spare_a_member() -> None:
    held = record(8, GANG, phase="holding", verdict=Suspend(by="operator"), state="hold")
    assert isinstance(decide_drain([seated(record=held)]), Evict)


@pytest.mark.parametrize(
    "gone",
    [
        None,
        pod(LEAVING, terminating=True),
        pod(member(0, life=2)),
        pod(LEAVING, terminated=True),
    ],
)
def test_one_at_a_time_goes_and_the_next_once_its_job_goes_on(gone: Any) -> None:
    other = seated(member=GANG[1], pod=pod(GANG[1]))
    assert "to leave" in why(seated(pod=gone), other)


def test_a_member_that_must_stay_keeps_no_other_from_going() -> None:
    stuck = seated(record=record(8, GANG[:6], phase="resumed"))
    assert decide_drain([stuck, seated()]) == Evict(seated())


def test_ec08_nobody_is_evicted_where_a_policy_would_restart_the_whole_job() -> None:
    wary = seated(job=job(restarts_on_deletion="PodEvicted -> RestartJob"))
    assert "PodEvicted -> RestartJob" in why(wary)


def test_the_pod_of_another_job_is_never_evicted_whatever_a_member_says() -> None:
    assert "another Job's" in why(seated(pod=pod(LEAVING, job_uid="another")))
