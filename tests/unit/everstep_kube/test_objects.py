"""Pods, nodes and Jobs as they really come: incomplete, in any order, with fields unknown."""

from typing import Any

from everstep_contract.identity import GangSpec, JobKey
from everstep_kube.objects import job_state, node_state, pod_state


def pod(**changes: Any) -> dict[str, Any]:
    metadata = {
        "name": "train-worker-0",
        "namespace": "training",
        "uid": "u1",
        "resourceVersion": "7",
        "labels": {"volcano.sh/job-name": "train"},
        "ownerReferences": [{"kind": "Job", "name": "train", "uid": "j1"}],
    }
    return {"metadata": {**metadata, **changes.pop("metadata", {})}, **changes}


def node(**changes: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "resourceVersion": "3", **changes.pop("metadata", {})}
    } | changes


def job(spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    named = {f"everstep.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": "train", "namespace": "training", "uid": "j1", "resourceVersion": "5"}
    return {"metadata": {**metadata, "annotations": named}, "spec": spec}


def test_a_pod_is_known_by_its_job_and_both_uids() -> None:
    state = pod_state(pod(spec={"nodeName": "n"}, status={"phase": "Running"}))
    assert state is not None
    assert (state.job, state.job_uid, state.uid) == (
        JobKey(namespace="training", name="train"), "j1", "u1",
    )  # fmt: skip
    assert (state.node, state.phase, state.terminated) == ("n", "Running", False)


def test_a_pod_of_no_volcano_job_is_none_of_ours() -> None:
    assert pod_state(pod(metadata={"labels": None})) is None
    assert (
        pod_state(pod(metadata={"ownerReferences": [{"kind": "ReplicaSet", "uid": "r"}]})) is None
    )


def test_a_pod_without_a_status_is_unknown() -> None:
    state = pod_state(pod())
    assert state is not None
    assert (state.phase, state.node) == ("Unknown", "")


def test_a_failed_pod_has_terminated_and_a_deleted_one_is_terminating() -> None:
    failed = pod_state(pod(status={"phase": "Failed", "reason": "Evicted"}))
    deleted = pod_state(pod(metadata={"deletionTimestamp": "now"}, status={"phase": "Running"}))
    assert failed is not None
    assert deleted is not None
    assert (failed.terminated, failed.reason) == (True, "Evicted")
    assert (deleted.terminated, deleted.terminating) == (False, True)


def test_ec53_ready_is_found_among_conditions_of_any_kind_and_order() -> None:
    conditions = [
        {"type": "DiskPressure", "status": "Unknown", "reason": "NodeStatusUnknown"},
        {"type": "Ready", "status": "Unknown", "lastHeartbeatTime": "T-95s"},
        {"type": "IBLinkFlapping", "status": "True"},
    ]
    assert node_state(node(status={"conditions": conditions})).ready == "Unknown"


def test_ec53_a_node_without_a_ready_condition_is_unknown() -> None:
    assert node_state(node()).ready == "Unknown"
    assert node_state(node(status={"conditions": [{"type": "Ready"}]})).ready == "Unknown"


def test_our_taint_and_our_cordon_are_told_from_those_of_others() -> None:
    taints = [{"key": "maintenance", "effect": "NoSchedule"}]
    theirs = node_state(node(spec={"unschedulable": True, "taints": taints}))
    assert (theirs.unschedulable, theirs.quarantined_by, theirs.cordoned_by) == (True, None, None)
    ours = node_state(
        node(
            metadata={"annotations": {"everstep.dev/cordoned-by": "i-1"}},
            spec={"taints": [*taints, {"key": "everstep.dev/quarantined", "value": "i-1"}]},
        )
    )
    assert (ours.quarantined_by, ours.cordoned_by) == ("i-1", "i-1")


def test_the_out_of_service_taint_is_seen() -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    assert node_state(node(spec={"taints": [taint]})).out_of_service


def test_a_jobs_gang_is_its_minimum_and_the_sum_of_its_replicas() -> None:
    spec = {"minAvailable": 6, "tasks": [{"replicas": 7}, {"replicas": 1}]}
    state = job_state(job(spec, nproc_per_node="4"))
    assert state.gang == GangSpec(min_member=6, max_member=8, nproc_per_node=4)


def test_a_jobs_generation_is_read_from_its_annotation() -> None:
    spec = {"tasks": [{"replicas": 1}]}
    assert job_state(job(spec, generation="12")).generation == 12
    assert job_state(job(spec, generation="twelve")).generation == 0
    assert job_state(job(spec, generation=str(2**63))).generation == 0


def test_a_manifest_beyond_all_bounds_is_taken_for_the_bound() -> None:
    spec = {"minAvailable": "many", "tasks": [{"replicas": 10**9}]}
    gang = job_state(job(spec, nproc_per_node="-3")).gang
    assert gang == GangSpec(min_member=100_000, max_member=100_000, nproc_per_node=1)


def test_ec08_a_policy_that_a_deletion_sets_off_is_named() -> None:
    harmless = {"tasks": [{"policies": [{"event": "TaskCompleted", "action": "CompleteJob"}]}]}
    harmful = {"tasks": [{"policies": [{"events": ["PodEvicted"], "action": "RestartJob"}]}]}
    assert job_state(job(harmless)).restarts_on_deletion == ""
    assert job_state(job(harmful)).restarts_on_deletion == "PodEvicted -> RestartJob"
