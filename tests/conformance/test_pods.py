"""Pods: made, bound, deleted in their time or at once, and found by their fields."""

import pytest
from support.conformance.api import Api
from support.conformance.fake_nodes import NODES, FakeNodes
from support.conformance.ground import Ground, pod_manifest

OTHER_UID = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(autouse=True)
def _clear(ground: Ground) -> object:
    yield
    ground.clear()


def test_the_status_in_the_body_of_a_new_pod_is_dropped(ground: Ground) -> None:
    body = {**pod_manifest("one"), "status": {"phase": "Running"}}
    made = ground.api.post(ground.pods, body).expect(201)
    assert made["status"]["phase"] == "Pending"


def test_a_pod_in_an_absent_namespace_is_404(api: Api) -> None:
    answer = api.post("/api/v1/namespaces/everstep-conformance-absent/pods", pod_manifest("one"))
    assert (answer.status, answer.reason) == (404, "NotFound")


def test_binding_a_bound_pod_is_a_conflict(ground: Ground, nodes: FakeNodes) -> None:
    ground.make_pod("one", nodes.names[0])
    target = {"kind": "Node", "name": nodes.names[1]}
    body = {"metadata": {"name": "one"}, "target": target}
    answer = ground.api.post(f"{ground.pods}/one/binding", body)
    assert (answer.status, answer.reason) == (409, "Conflict")


def test_the_node_of_a_pod_cannot_be_changed(ground: Ground, nodes: FakeNodes) -> None:
    ground.make_pod("one", nodes.names[0])
    answer = ground.api.patch(f"{ground.pods}/one", {"spec": {"nodeName": nodes.names[1]}})
    assert (answer.status, answer.reason) == (422, "Invalid")


def test_a_deleted_bound_pod_stays_until_its_kubelet_lets_it_go(
    ground: Ground, nodes: FakeNodes
) -> None:
    """200, and an end in the future; deleting it again changes nothing."""
    ground.make_pod("one", nodes.names[0])
    first = ground.api.delete(f"{ground.pods}/one").expect(200)
    assert first["metadata"]["deletionGracePeriodSeconds"] == 30
    again = ground.api.delete(f"{ground.pods}/one").expect(200)
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert ground.pod("one")["metadata"]["deletionTimestamp"]


def test_a_shorter_grace_moves_the_end_forward(ground: Ground, nodes: FakeNodes) -> None:
    ground.make_pod("one", nodes.names[0])
    ground.api.delete(f"{ground.pods}/one").expect(200)
    shorter = ground.api.delete(f"{ground.pods}/one", gracePeriodSeconds="5").expect(200)
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = ground.api.delete(f"{ground.pods}/one", gracePeriodSeconds="20").expect(200)
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5


def test_a_grace_of_nothing_takes_the_pod_away_at_once(ground: Ground, nodes: FakeNodes) -> None:
    ground.make_pod("one", nodes.names[0])
    ground.api.delete(f"{ground.pods}/one", gracePeriodSeconds="0").expect(200)
    assert ground.api.get(f"{ground.pods}/one").status == 404
    again = ground.api.delete(f"{ground.pods}/one", gracePeriodSeconds="0")
    assert (again.status, again.reason) == (404, "NotFound")


def test_a_pod_without_a_node_is_gone_at_once(ground: Ground) -> None:
    """There is no kubelet to wait for."""
    ground.make_pod("one")
    ground.api.delete(f"{ground.pods}/one").expect(200)
    assert ground.api.get(f"{ground.pods}/one").status == 404


def test_a_delete_with_another_uid_is_a_conflict(ground: Ground, nodes: FakeNodes) -> None:
    """Names are used again within moments; the uid says which pod is meant."""
    made = ground.make_pod("one", nodes.names[0])
    options = {"gracePeriodSeconds": 0, "preconditions": {"uid": OTHER_UID}}
    answer = ground.api.delete(f"{ground.pods}/one", options)
    assert (answer.status, answer.reason) == (409, "Conflict")
    options["preconditions"] = {"uid": made["metadata"]["uid"]}
    ground.api.delete(f"{ground.pods}/one", options).expect(200)
    assert ground.api.get(f"{ground.pods}/one").status == 404


def test_a_dry_run_of_a_deletion_leaves_the_pod(ground: Ground, nodes: FakeNodes) -> None:
    ground.make_pod("one", nodes.names[0])
    ground.api.delete(f"{ground.pods}/one", dryRun="All").expect(200)
    assert "deletionTimestamp" not in ground.pod("one")["metadata"]


def test_pods_are_selected_by_node_phase_and_scheduler(ground: Ground, nodes: FakeNodes) -> None:
    ground.make_pod("one", nodes.names[0])
    ground.make_pod("two", nodes.names[1])
    ground.make_pod("none", schedulerName="everstep-other")

    def names(selector: str) -> set[str]:
        listed = ground.api.get(ground.pods, fieldSelector=selector).expect(200)
        return {pod["metadata"]["name"] for pod in listed["items"]}

    assert names(f"spec.nodeName={nodes.names[0]}") == {"one"}
    assert names("status.phase=Pending,spec.schedulerName=everstep-other") == {"none"}
    assert names("status.phase!=Pending") == set()


def test_nodes_are_selected_by_their_cordon(nodes: FakeNodes) -> None:
    nodes.cordon(nodes.names[0])
    listed = nodes.api.get(NODES, fieldSelector="spec.unschedulable=true").expect(200)
    names = {node["metadata"]["name"] for node in listed["items"]}
    assert names & set(nodes.names) == {nodes.names[0]}


def test_other_fields_cannot_be_selected_by(ground: Ground) -> None:
    answer = ground.api.get(ground.pods, fieldSelector="spec.priority=1")
    assert (answer.status, answer.reason) == (400, "BadRequest")
