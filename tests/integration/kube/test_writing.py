"""Writes that carry their condition with them, and are repeated only where that is safe."""

from typing import Any

import pytest
from everstep_kube.client import JSON_PATCH, KubeClient, Request
from everstep_kube.errors import AlreadyExistsError, ConflictError, InvalidError, UnavailableError
from everstep_kube.objects import PodState, pod_state
from everstep_kube.writing import ClusterApi, Mark
from everstep_runtime.errors import LeaseLostError
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Drop, Refuse, Rule
from support.polling import eventually
from support.simcluster import NAMESPACE, job_manifest, running

NODE = "/api/v1/nodes/node-1"
EVENTS = "/api/v1/namespaces/default/events"


@pytest.fixture
def api(client: KubeClient) -> ClusterApi:
    return ClusterApi(client)


def json_patch(*operations: dict[str, Any]) -> Request:
    return Request("PATCH", NODE, body=operations, content_type=JSON_PATCH)


def event(name: str) -> dict[str, object]:
    involved = {"kind": "Node", "name": "node-1", "apiVersion": "v1"}
    place = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Event", "metadata": place, "involvedObject": involved}


async def a_pod(cluster: Cluster) -> PodState:
    cluster.create_job(job_manifest())
    await cluster.wait_for(running(cluster, 3))
    pod = pod_state(cluster.pods(NAMESPACE)[0])
    assert pod is not None
    return pod


async def test_a_json_patch_whose_test_holds_changes_what_it_says(
    cluster: Cluster, client: KubeClient
) -> None:
    test = {"op": "test", "path": "/metadata/name", "value": "node-1"}
    cordon = {"op": "add", "path": "/spec/unschedulable", "value": True}
    node = await client.call(json_patch(test, cordon))
    assert node["spec"]["unschedulable"]


async def test_a_json_patch_whose_test_fails_is_a_conflict_and_changes_nothing(
    cluster: Cluster, client: KubeClient
) -> None:
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": "1"}
    cordon = {"op": "add", "path": "/spec/unschedulable", "value": True}
    with pytest.raises(ConflictError):
        await client.call(json_patch(test, cordon))
    node = await client.call(Request("GET", NODE))
    assert "unschedulable" not in node["spec"]


async def test_a_json_patch_that_cannot_be_applied_and_tests_nothing_is_invalid(
    cluster: Cluster, client: KubeClient
) -> None:
    with pytest.raises(InvalidError):
        await client.call(json_patch({"op": "remove", "path": "/spec/nothing"}))


async def test_creating_what_is_there_is_a_conflict_of_its_own_kind(
    cluster: Cluster, api: ClusterApi
) -> None:
    await api.create(EVENTS, event("one"))
    with pytest.raises(AlreadyExistsError):
        await api.create(EVENTS, event("one"))


async def test_a_creation_without_an_answer_is_not_repeated(
    cluster: Cluster, api: ClusterApi
) -> None:
    cluster.api.misbehaviour.add(Rule(Drop(applied=True), method="POST", times=1))
    with pytest.raises(UnavailableError):
        await api.create(EVENTS, event("one"))
    assert len(cluster.api.audit.matching(method="POST", path="/events")) == 1


async def test_an_evicted_pod_goes_and_its_successor_is_left_alone(
    cluster: Cluster, api: ClusterApi
) -> None:
    pod = await a_pod(cluster)
    assert await api.evict(pod) == "done"

    async def is_replaced() -> bool:
        now = await api.pod(NAMESPACE, pod.name)
        return now is not None and now.uid != pod.uid

    await eventually(is_replaced)
    assert await api.evict(pod) == "already"


async def test_ec25_a_writer_that_lost_its_lease_sends_no_write_and_may_still_read(
    cluster: Cluster, client: KubeClient
) -> None:
    def lost() -> None:
        raise LeaseLostError(lease="rescaler", why="not renewed in time")

    api = ClusterApi(client).guarded(lost)
    node = await api.node("node-1")
    assert node is not None
    with pytest.raises(LeaseLostError):
        await api.quarantine(node, Mark("incident", "why", "since", "whose"))
    with pytest.raises(LeaseLostError):
        await api.create(EVENTS, event("one"))
    assert not cluster.api.audit.matching(user_agent="everstep-test")


async def test_ec25_each_repetition_of_a_write_asks_anew_whether_it_may(
    cluster: Cluster, client: KubeClient
) -> None:
    asked: list[None] = []

    def may_once() -> None:
        asked.append(None)
        if len(asked) > 1:
            raise LeaseLostError(lease="rescaler", why="not renewed in time")

    cluster.api.misbehaviour.add(Rule(Refuse(503), method="PATCH"))
    with pytest.raises(LeaseLostError):
        await client.guarded(may_once).call(json_patch())
    assert len(cluster.api.audit.matching(user_agent="everstep-test")) == 1
