"""Nonsense is refused with a Status and never reaches what works behind the API."""

from typing import Any

import aiohttp
from everstep_simcluster.cluster import Cluster
from support.simcluster import FOREVER, NAMESPACE, phases, pod_manifest, running

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
NODE = "/api/v1/nodes/node-0"


def pod(**container: object) -> dict[str, object]:
    manifest = pod_manifest("bad", ("true",))
    manifest["spec"]["containers"][0].update(container)
    return manifest


BAD_REQUESTS: list[tuple[str, str, Any, int]] = [
    ("POST", PODS, {"metadata": {"name": "bad"}}, 422),
    ("POST", PODS, {"metadata": {}}, 422),
    ("POST", PODS, {"metadata": {"name": "bad"}, "spec": {"containers": [{}]}}, 422),
    ("POST", PODS, pod(command=["sleep", 5]), 400),
    ("POST", PODS, pod(env=[{"name": "RANKS", "value": 8}]), 400),
    ("POST", PODS, pod(env=[{"value": "8"}]), 422),
    ("POST", PODS, pod(resources={"limits": {"nvidia.com/gpu": "many"}}), 422),
    ("POST", PODS, [], 400),
    ("POST", PODS, {"metadata": None}, 400),
    ("POST", "/api/v1/pods", pod(), 405),
    ("POST", f"{PODS}/absent/binding", {"target": {"name": "node-0"}}, 404),
    ("POST", f"{PODS}/absent/binding", {}, 400),
    ("PUT", f"{PODS}/absent/eviction", {}, 405),
    ("POST", f"{PODS}/absent/exec", {}, 404),
    ("GET", f"{PODS}?limit=some", None, 400),
    ("GET", f"{PODS}?labelSelector=a%3D%28", None, 400),
    ("GET", "/apis/nope/v1/things", None, 404),
    ("GET", "/api/v1/namespaces/training/nodes", None, 404),
    ("POST", JOBS, {"metadata": {"name": "bad"}, "spec": {"tasks": []}}, 400),
    ("PATCH", NODE, {"spec": {"taints": [{"key": "a"}]}}, 422),
    ("PATCH", NODE, {"spec": {"taints": [{"effect": "NoSchedule"}]}}, 422),
    ("PATCH", NODE, {"metadata": {"labels": {"Bad Key!": "x"}}}, 422),
    ("PATCH", NODE, {"metadata": {"annotations": {"big": "x" * 300_000}}}, 422),
    ("PATCH", NODE, {"spec": None}, 200),
    ("DELETE", f"{PODS}/absent", None, 404),
]


async def test_every_bad_request_is_answered_and_the_cluster_works_on(cluster: Cluster) -> None:
    async with aiohttp.ClientSession(cluster.url) as session:
        answers = [await status(session, *request) for *request, _ in BAD_REQUESTS]
        async with session.post(PODS, json=pod_manifest("good", FOREVER)) as response:
            assert response.status == 201
    assert answers == [code for *_, code in BAD_REQUESTS]
    await cluster.wait_for(running(cluster, 1))
    assert phases(cluster) == {"good": "Running"}


async def status(session: aiohttp.ClientSession, method: str, path: str, body: Any) -> int:
    headers = {"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None
    async with session.request(method, path, json=body, headers=headers) as response:
        return response.status


async def test_a_body_that_is_no_json_is_refused(cluster: Cluster) -> None:
    async with (
        aiohttp.ClientSession(cluster.url) as session,
        session.post(PODS, data="kind: Pod") as response,
    ):
        assert response.status == 400


async def test_a_body_above_three_megabytes_is_refused(cluster: Cluster) -> None:
    async with (
        aiohttp.ClientSession(cluster.url) as session,
        session.post(PODS, data=b" " * 3_300_000) as response,
    ):
        body = await response.json()
    assert (response.status, body["reason"]) == (413, "RequestEntityTooLarge")
