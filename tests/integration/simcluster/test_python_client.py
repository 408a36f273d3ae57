"""The real Python client works against the cluster, with its models and its errors."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import urllib3
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Drop, Hang, Refuse, Rule
from kubernetes import client, watch
from kubernetes.client.exceptions import ApiException
from support.simcluster import NAMESPACE, job_manifest, phases, running

VOLCANO = ("batch.volcano.sh", "v1alpha1", NAMESPACE, "jobs")
TIMEOUT = (2.0, 5.0)
Watch: Any = watch.Watch  # the client's own type hints stop here


@pytest.fixture
def api(cluster: Cluster) -> client.ApiClient:
    configuration = client.Configuration(host=cluster.url)
    configuration.retries = False
    api = client.ApiClient(configuration)
    api.user_agent = "everstep-test/1"
    return api


async def call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Call the blocking client without blocking the server, which lives in this loop."""
    return await asyncio.to_thread(function, *arguments, _request_timeout=TIMEOUT, **options)


async def start(cluster: Cluster) -> None:
    cluster.create_job(job_manifest())
    await cluster.wait_for(running(cluster, 3))


async def test_nodes_and_pods_fit_the_clients_models(
    cluster: Cluster, api: client.ApiClient
) -> None:
    await start(cluster)
    core = client.CoreV1Api(api)
    nodes = await call(core.list_node)
    pods = await call(core.list_namespaced_pod, NAMESPACE, label_selector="volcano.sh/job-name")
    events = await call(core.list_event_for_all_namespaces)
    assert [node.metadata.name for node in nodes.items] == ["node-0", "node-1", "node-2"]
    assert nodes.items[0].status.node_info.boot_id == cluster.machines["node-0"].boot_id
    assert {pod.status.pod_ip for pod in pods.items} == {
        machine.address for machine in cluster.machines.values()
    }
    assert events.kind == "EventList"


async def test_a_cordon_gets_its_taint_and_loses_it_again(
    cluster: Cluster, api: client.ApiClient
) -> None:
    core = client.CoreV1Api(api)
    await call(core.patch_node, "node-1", {"spec": {"unschedulable": True}})
    await cluster.wait_for(
        lambda: (
            [t["key"] for t in cluster.node("node-1")["spec"].get("taints", ())]
            == ["node.kubernetes.io/unschedulable"]
        )
    )
    await call(core.patch_node, "node-1", {"spec": {"unschedulable": None}})
    await cluster.wait_for(lambda: "taints" not in cluster.node("node-1")["spec"])


async def test_a_job_is_annotated_by_json_patch_with_a_version_test(
    cluster: Cluster, api: client.ApiClient
) -> None:
    cluster.create_job(job_manifest())
    custom = client.CustomObjectsApi(api)
    job = await call(custom.get_namespaced_custom_object, *VOLCANO, "train")
    operations: list[Any] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "add", "path": "/metadata/annotations", "value": {"everstep.dev/generation": "3"}},
    ]
    with pytest.raises(ApiException) as refused:
        await patch_job(custom, operations)
    assert refused.value.status == 422
    operations[0]["value"] = job["metadata"]["resourceVersion"]
    patched = await patch_job(custom, operations[1:])
    assert patched["metadata"]["annotations"] == {"everstep.dev/generation": "3"}


async def patch_job(custom: client.CustomObjectsApi, operations: list[Any]) -> Any:
    return await call(
        custom.patch_namespaced_custom_object, *VOLCANO, "train", operations,
        _content_type="application/json-patch+json",
    )  # fmt: skip


async def test_a_pod_is_deleted_only_under_its_own_uid(
    cluster: Cluster, api: client.ApiClient
) -> None:
    await start(cluster)
    core = client.CoreV1Api(api)
    options: Any = client.V1DeleteOptions(
        grace_period_seconds=0, preconditions=client.V1Preconditions(uid="another")
    )
    with pytest.raises(ApiException) as refused:
        await call(core.delete_namespaced_pod, "train-worker-0", NAMESPACE, body=options)
    assert refused.value.status == 409
    pod = await call(core.read_namespaced_pod, "train-worker-0", NAMESPACE)
    options.preconditions.uid = pod.metadata.uid
    deleted = await call(core.delete_namespaced_pod, "train-worker-0", NAMESPACE, body=options)
    assert deleted.metadata.uid == pod.metadata.uid


async def test_evictions_stop_where_the_budget_ends(
    cluster: Cluster, api: client.ApiClient
) -> None:
    await start(cluster)
    selector = client.V1LabelSelector(match_labels={"volcano.sh/job-name": "train"})
    budget = client.V1PodDisruptionBudget(
        metadata=client.V1ObjectMeta(name="train"),
        spec=client.V1PodDisruptionBudgetSpec(min_available=3, selector=selector),
    )
    policy, core = client.PolicyV1Api(api), client.CoreV1Api(api)
    await call(policy.create_namespaced_pod_disruption_budget, NAMESPACE, budget)
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="train-worker-0"))
    with pytest.raises(ApiException) as refused:
        await call(core.create_namespaced_pod_eviction, "train-worker-0", NAMESPACE, eviction)
    assert refused.value.status == 429
    assert "needs 3 healthy pods and has 3 currently" in str(refused.value.body)


async def test_leases_are_guarded_by_their_version_and_want_microseconds(
    api: client.ApiClient,
) -> None:
    leases = client.CoordinationV1Api(api)
    moment = datetime.now(UTC).replace(microsecond=123456)
    lease: Any = client.V1Lease(
        metadata=client.V1ObjectMeta(name="leader"),
        spec=client.V1LeaseSpec(holder_identity="one", renew_time=moment),
    )
    created = await call(leases.create_namespaced_lease, "default", lease)
    lease.spec.renew_time = moment.replace(microsecond=0)
    with pytest.raises(ApiException) as whole_second:
        await call(leases.create_namespaced_lease, "default", lease)
    assert whole_second.value.status == 400
    lease.spec.renew_time = moment
    with pytest.raises(ApiException) as unguarded:
        await call(leases.replace_namespaced_lease, "leader", "default", lease)
    assert unguarded.value.status == 422
    created.spec.holder_identity = "two"
    await call(leases.replace_namespaced_lease, "leader", "default", created)
    with pytest.raises(ApiException) as stale:
        await call(leases.replace_namespaced_lease, "leader", "default", created)
    assert stale.value.status == 409


async def test_the_clients_watch_sees_every_change_and_ends_at_its_timeout(
    cluster: Cluster, api: client.ApiClient
) -> None:
    core = client.CoreV1Api(api)
    version = (await call(core.list_namespaced_pod, NAMESPACE)).metadata.resource_version

    def follow() -> list[tuple[str, str]]:
        stream = Watch().stream(
            core.list_namespaced_pod, NAMESPACE, resource_version=version, timeout_seconds=1
        )
        return [(event["type"], event["object"].metadata.name) for event in stream]

    following = asyncio.create_task(asyncio.to_thread(follow))
    await start(cluster)
    seen = await following
    assert ("ADDED", "train-worker-0") in seen
    assert ("MODIFIED", "train-worker-2") in seen


async def test_a_watch_from_before_the_history_raises_410(
    cluster: Cluster, api: client.ApiClient
) -> None:
    cluster.api.expire_history()
    core = client.CoreV1Api(api)

    def follow() -> list[Any]:
        stream = Watch().stream(
            core.list_namespaced_pod, NAMESPACE, resource_version="1", timeout_seconds=5
        )
        return list(stream)

    with pytest.raises(ApiException) as gone:
        await asyncio.to_thread(follow)
    assert gone.value.status == 410


async def test_writes_are_audited_with_agent_and_body(
    cluster: Cluster, api: client.ApiClient
) -> None:
    core = client.CoreV1Api(api)
    await call(core.patch_node, "node-0", {"metadata": {"labels": {"rack": "r1"}}})
    await call(core.read_node, "node-0")
    (write,) = cluster.audit.matching(path="/nodes/node-0")
    assert (write.user_agent, write.method, write.status) == ("everstep-test/1", "PATCH", 200)
    assert write.body == {"metadata": {"labels": {"rack": "r1"}}}


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_the_server_refuses_on_request_and_only_as_often(
    code: int, cluster: Cluster, api: client.ApiClient
) -> None:
    rule = Rule(Refuse(code, retry_after_seconds=1), method="GET", path="/nodes", times=1)
    cluster.api.misbehaviour.add(rule)
    core = client.CoreV1Api(api)
    with pytest.raises(ApiException) as refused:
        await call(core.list_node)
    assert refused.value.status == code
    assert len((await call(core.list_node)).items) == 3


async def test_a_dropped_write_may_have_taken_effect(
    cluster: Cluster, api: client.ApiClient
) -> None:
    cluster.api.misbehaviour.add(Rule(Drop(applied=True), method="PATCH", times=1))
    core = client.CoreV1Api(api)
    with pytest.raises(urllib3.exceptions.HTTPError):
        await call(core.patch_node, "node-0", {"metadata": {"labels": {"rack": "r1"}}})
    assert cluster.node("node-0")["metadata"]["labels"]["rack"] == "r1"


async def test_a_hanging_server_makes_the_client_time_out(
    cluster: Cluster, api: client.ApiClient
) -> None:
    cluster.api.misbehaviour.add(Rule(Hang(30), times=1))
    core = client.CoreV1Api(api)
    with pytest.raises(urllib3.exceptions.HTTPError):
        await asyncio.to_thread(core.list_node, _request_timeout=(1, 0.2))


async def test_pods_of_a_deleted_namespace_go(cluster: Cluster, api: client.ApiClient) -> None:
    await start(cluster)
    await call(client.CoreV1Api(api).delete_namespace, NAMESPACE)
    await cluster.wait_for(lambda: not phases(cluster))
