"""The pages by which another process looks at the cluster and does things to it."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.objects import condition_of
from support.polling import eventually
from support.simcluster import FOREVER, NAMESPACE, phases, pod_manifest

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture
async def session(cluster: Cluster) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cluster.url) as session:
        yield session


async def test_a_fault_is_answered_with_its_instant(
    cluster: Cluster, session: aiohttp.ClientSession
) -> None:
    manifest = pod_manifest("one", FOREVER, nodeName="node-0")
    async with session.post(PODS, json=manifest) as response:
        assert response.status == 201
    await cluster.wait_for(lambda: phases(cluster) == {"one": "Running"})
    async with session.post("/everstep-sim/faults/crash/node-0") as response:
        at = await response.json()
    assert at["monotonic_seconds"] > 0
    assert at["unix_seconds"] > at["monotonic_seconds"]
    await cluster.wait_for(lambda: phases(cluster) == {"one": "Failed"})
    async with session.get("/everstep-sim/audit", params={"method": "POST"}) as response:
        assert [write["path"] for write in await response.json()] == [PODS]


@pytest.mark.parametrize("fault", ["freeze", "power_off"])
async def test_the_state_tells_of_a_fault(fault: str, session: aiohttp.ClientSession) -> None:
    async with session.post(f"/everstep-sim/faults/{fault}/node-1") as response:
        assert response.status == 200
    async with session.get("/everstep-sim/state") as response:
        nodes = {node["name"]: node for node in (await response.json())["nodes"]}
    assert (nodes["node-1"]["frozen"], nodes["node-1"]["powered"]) == (
        fault == "freeze",
        fault != "power_off",
    )


@pytest.mark.parametrize(
    ("page", "why"),
    [
        ("faults/explode/node-0", "no fault 'explode'"),
        ("faults/crash/node-9", "no node 'node-9'"),
        ("faults/kill/node-0?pid=1", "process 1 does not run on node 'node-0'"),
        ("faults/kill/node-0?pid=one", "invalid literal"),
        ("api/dance", "no such act"),
    ],
)
async def test_a_wrong_wish_is_told_why(
    page: str, why: str, session: aiohttp.ClientSession
) -> None:
    async with session.post(f"/everstep-sim/{page}") as response:
        assert response.status == 400
        assert why in (await response.json())["error"]


async def test_the_api_server_misbehaves_and_restarts_on_request(
    session: aiohttp.ClientSession,
) -> None:
    rule = {"act": {"kind": "refuse", "code": 503}, "method": "GET", "path": "/nodes"}
    async with session.post("/everstep-sim/api/misbehave", json=rule) as response:
        assert response.status == 200
    async with session.get("/api/v1/nodes") as response:
        assert response.status == 503
    async with session.post("/everstep-sim/api/behave"):
        pass
    async with session.get("/api/v1/nodes") as response:
        before = int((await response.json())["metadata"]["resourceVersion"])
    async with session.post("/everstep-sim/api/restart"):
        pass

    async def jumped() -> bool:
        try:
            async with session.get("/api/v1/nodes") as response:
                body = await response.json()
        except aiohttp.ClientError:
            return False
        return int(body["metadata"]["resourceVersion"]) >= before + 100

    await eventually(jumped)


async def test_the_api_server_goes_away_and_comes_back_by_a_page_that_stays(
    cluster: Cluster, session: aiohttp.ClientSession
) -> None:
    async with session.post("/everstep-sim/api/stop") as refused:
        assert "control_url" in (await refused.json())["error"]
    async with aiohttp.ClientSession(cluster.control_url) as pages:
        await asked(pages, "stop")
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get("/api/v1/nodes")
        await asked(pages, "start")
        async with session.get("/api/v1/nodes") as response:
            assert len((await response.json())["items"]) == len(cluster.machines)
        async with pages.post("/everstep-sim/api/start") as refused:
            assert (await refused.json())["error"] == "start: the API server runs"


async def test_a_silent_kubelet_makes_its_node_unknown_and_its_pod_goes_on(
    cluster: Cluster, session: aiohttp.ClientSession
) -> None:
    manifest = pod_manifest("one", FOREVER, nodeName="node-0")
    async with session.post(PODS, json=manifest):
        await cluster.wait_for(lambda: phases(cluster) == {"one": "Running"})
    before = cluster.faults.descendants("node-0")
    async with session.post("/everstep-sim/faults/stop_kubelet/node-0"):
        await cluster.wait_for(lambda: ready(cluster) == "Unknown")
    async with session.post("/everstep-sim/faults/start_kubelet/node-0"):
        await cluster.wait_for(lambda: ready(cluster) == "True")
    assert phases(cluster) == {"one": "Running"}
    assert cluster.faults.descendants("node-0") == before != set()


async def asked(pages: aiohttp.ClientSession, act: str) -> None:
    async with pages.post(f"/everstep-sim/api/{act}") as response:
        assert (await response.json()) == {"done": act}


def ready(cluster: Cluster) -> str:
    condition = condition_of(cluster.node("node-0"), "Ready")
    assert condition is not None
    return str(condition["status"])
