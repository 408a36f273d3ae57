"""EC-54, EC-70: why pods end, and why they do not start, by their objects' own word."""

from typing import Any

import pytest
from everstep_kube.objects import pod_state
from everstep_kube.pod_words import cause_of, containers_of

RUNNING = {"name": "train", "state": {"running": {"startedAt": "now"}}, "restartCount": 0}


def disrupted(reason: str, message: str = "", **status: Any) -> dict[str, Any]:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    return {
        "metadata": {"deletionTimestamp": "now"},
        "status": {"conditions": [condition], **status},
    }


@pytest.mark.parametrize(
    ("pod", "cause"),
    [
        (disrupted("PreemptionByScheduler"), "preempted"),
        (disrupted("EvictionByEvictionAPI"), "evicted"),
        (disrupted("DeletionByTaintManager"), "tainted"),
        (disrupted("DeletionByPodGC"), "orphaned"),
        (disrupted("TerminationByKubelet", "The node was low on resource: memory."), "pressure"),
        (disrupted("TerminationByKubelet", "terminated due to imminent node shutdown"), "shutdown"),
        (disrupted("TerminationByKubelet", "Preempted to admit a critical pod"), "preempted"),
        ({"status": {"phase": "Failed", "reason": "Evicted"}}, "pressure"),
        ({"status": {"phase": "Failed", "reason": "Preempting"}}, "preempted"),
        ({"status": {"phase": "Failed", "reason": "NodeShutdown"}}, "shutdown"),
        ({"status": {"phase": "Unknown", "reason": "NodeLost"}}, "node_lost"),
        ({"status": {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}}, "rejected"),
        ({"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}}, "rejected"),
        ({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Running"}}, "deleted"),
        ({"metadata": {"deletionTimestamp": "now"}, "status": {"phase": "Failed"}}, ""),
        ({"metadata": {"deletionTimestamp": None}, "status": {"phase": "Running"}}, ""),
        ({"status": {"phase": "Failed"}}, ""),
        ({}, ""),
    ],
)
def test_ec54_the_causes_of_a_pods_end_are_told_apart(pod: dict[str, Any], cause: str) -> None:
    assert cause_of(pod) == cause


def test_ec54_volcanos_own_eviction_is_a_ready_condition_and_a_deletion() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "Evict", "message": "because of preempt"}
    pod = {"metadata": {"deletionTimestamp": "now"}, "status": {"conditions": [ready]}}
    assert cause_of(pod) == "preempted"


def test_a_disruption_that_is_over_is_no_cause() -> None:
    pod = disrupted("PreemptionByScheduler")
    pod["metadata"] = {}
    pod["status"]["conditions"][0]["status"] = "False"
    assert cause_of(pod) == ""


def test_a_container_that_simply_runs_is_not_told_of() -> None:
    assert containers_of({"containerStatuses": [RUNNING]}) == ()


def test_an_out_of_memory_kill_is_told_with_its_exit_code() -> None:
    ended = {"name": "train", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
    (told,) = containers_of({"containerStatuses": [ended]})
    assert (told.state, told.reason, told.exit_code) == ("terminated", "OOMKilled", 137)


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CrashLoopBackOff", "ErrImagePull"])
def test_a_replacement_that_does_not_start_says_why(reason: str) -> None:
    waiting = {
        "name": "train",
        "restartCount": 4,
        "state": {"waiting": {"reason": reason, "message": "back-off"}},
        "lastState": {"terminated": {"exitCode": 1}},
    }
    (told,) = containers_of({"containerStatuses": [waiting]})
    assert (told.state, told.reason, told.message) == ("waiting", reason, "back-off")
    assert (told.exit_code, told.restarts) == (1, 4)


def test_a_container_that_runs_again_says_what_ended_it_before() -> None:
    again = {
        **RUNNING,
        "restartCount": 1,
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
    }
    (told,) = containers_of({"containerStatuses": [again]})
    assert (told.state, told.reason, told.restarts) == ("running", "OOMKilled", 1)


def test_an_init_container_that_is_done_is_not_told_of() -> None:
    done = {"name": "fetch", "state": {"terminated": {"exitCode": 0}}}
    stuck = {"name": "wait", "state": {"waiting": {"reason": "PodInitializing"}}}
    told = containers_of({"initContainerStatuses": [done, stuck]})
    assert [one.name for one in told] == ["wait"]


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": None, "conditions": None},
        {"containerStatuses": [None, {}, {"state": None, "lastState": 3, "restartCount": "many"}]},
        {"conditions": [None, {"type": "DisruptionTarget"}, {"type": "Ready", "status": None}]},
    ],
)
def test_ec53_broken_container_statuses_and_conditions_do_not_raise(status: dict[str, Any]) -> None:
    assert cause_of({"status": status, "metadata": None}) == ""
    assert len(containers_of(status)) <= 2


def test_a_pod_that_was_written_off_while_its_containers_run_has_not_terminated() -> None:
    metadata = {
        "name": "train-worker-0", "namespace": "training", "uid": "u1",
        "labels": {"volcano.sh/job-name": "train"},
        "ownerReferences": [{"kind": "Job", "uid": "j1"}],
    }  # fmt: skip
    status = {"phase": "Failed", "containerStatuses": [RUNNING]}
    state = pod_state({"metadata": metadata, "status": status})
    assert state is not None
    assert not state.terminated
