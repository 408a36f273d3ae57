"""Volcano's rules: what an event calls for, and which phase follows."""

from collections import Counter

import pytest
from everstep_simcluster.resources import Object
from everstep_simcluster.volcano_rules import (
    PodEvent,
    Transition,
    action_for,
    next_phase,
    pod_counts,
    transition_for,
)


def job(phase: str = "Running", *, retries: int = 0, **spec: object) -> Object:
    status = {"state": {"phase": phase}, "retryCount": retries, "version": 1}
    task = {"name": "worker", "replicas": 8}
    return {"spec": {"minAvailable": 6, "maxRetry": 3, "tasks": [task], **spec}, "status": status}


def event(kind: str, *, exit_code: int | None = None, version: int = 1) -> PodEvent:
    return PodEvent(kind, "uid", "train-worker-0", "worker", exit_code, version)


def policy(action: str, **when: object) -> Object:
    return {"action": action, **when}


@pytest.mark.parametrize(
    ("when", "kind", "fits"),
    [
        ({"event": "PodFailed"}, "PodFailed", True),
        ({"event": "PodFailed"}, "PodEvicted", False),
        ({"events": ["PodEvicted", "PodFailed"]}, "PodEvicted", True),
        ({"event": "*"}, "PodEvicted", True),
        ({"exitCode": 3}, "PodFailed", True),
        ({"exitCode": 4}, "PodFailed", False),
    ],
)
def test_a_policy_fits_its_events_or_its_exit_code(when: Object, kind: str, fits: bool) -> None:
    ruled = job(policies=[policy("RestartJob", **when)])
    expected = "RestartJob" if fits else ""
    assert action_for(ruled, event(kind, exit_code=3)) == expected


def test_a_tasks_own_policy_comes_before_the_jobs() -> None:
    task = {"name": "worker", "replicas": 8, "policies": [policy("RestartTask", event="*")]}
    ruled = job(tasks=[task], policies=[policy("AbortJob", event="*")])
    assert action_for(ruled, event("PodFailed")) == "RestartTask"


def test_a_pod_from_before_the_last_restart_calls_for_nothing() -> None:
    ruled = job(policies=[policy("RestartJob", event="*")])
    assert action_for(ruled, event("PodEvicted", version=0)) == ""


@pytest.mark.parametrize("phase", ["Failed", "Completed", "Terminated", "Terminating"])
@pytest.mark.parametrize("action", ["ResumeJob", "RestartJob", "TerminateJob", "AbortJob"])
def test_a_job_that_has_ended_stays_so(phase: str, action: str) -> None:
    assert transition_for(phase, action) is None


def test_an_aborted_job_can_only_be_resumed_and_pays_for_it() -> None:
    assert transition_for("Aborted", "RestartJob") is None
    assert transition_for("Aborted", "ResumeJob") == Transition("Restarting", spends_retry=True)


@pytest.mark.parametrize(
    ("action", "kill"), [("RestartJob", "job"), ("RestartTask", "task"), ("RestartPod", "pod")]
)
def test_every_restart_spends_a_retry(action: str, kill: str) -> None:
    transition = transition_for("Running", action)
    assert transition is not None
    assert (transition.kill, transition.spends_retry) == (kill, True)


def test_an_unknown_action_does_nothing() -> None:
    assert transition_for("Running", "Nonsense") is None


@pytest.mark.parametrize(
    ("phase", "pods", "expected"),
    [
        ("Pending", {"Running": 5, "Pending": 3}, "Pending"),
        ("Pending", {"Running": 6, "Pending": 2}, "Running"),
        ("Running", {"Running": 7, "Terminating": 1}, "Running"),
        ("Running", {"Running": 5, "Pending": 3}, "Pending"),
        ("Running", {"Running": 7, "Failed": 1}, "Running"),
        ("Running", {"Succeeded": 6, "Failed": 2}, "Completed"),
        ("Running", {"Succeeded": 5, "Failed": 3}, "Failed"),
        ("Restarting", {"Terminating": 8}, "Restarting"),
        ("Restarting", {"Terminating": 2, "Pending": 6}, "Pending"),
        ("Aborting", {"Terminating": 1}, "Aborting"),
        ("Aborting", {}, "Aborted"),
        ("Completing", {"Succeeded": 3}, "Completed"),
        ("Failed", {"Terminating": 8}, "Failed"),
    ],
)
def test_the_next_phase_follows_from_the_pods(
    phase: str, pods: dict[str, int], expected: str
) -> None:
    assert next_phase(job(phase), Counter(pods)) == expected


def test_the_last_retry_fails_the_job() -> None:
    assert next_phase(job("Restarting", retries=3), Counter({"Pending": 8})) == "Failed"


def test_without_the_webhook_the_first_restart_fails_the_job() -> None:
    unruled = job("Restarting", retries=1)
    del unruled["spec"]["maxRetry"]
    assert next_phase(unruled, Counter({"Pending": 8})) == "Failed"


def test_zero_counts_are_left_out() -> None:
    assert pod_counts(Counter({"Running": 7, "Terminating": 1})) == {"running": 7, "terminating": 1}
