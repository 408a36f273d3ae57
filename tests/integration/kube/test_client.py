"""The client against an API server that hangs, refuses and drops: bounded, and typed errors."""

from pathlib import Path

import pytest
from everstep_kube import client as tuning
from everstep_kube.client import KubeClient, Request, connect
from everstep_kube.errors import (
    GoneError,
    KubeConfigError,
    NotFoundError,
    RejectedError,
    TransientKubeError,
)
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Drop, Hang, Refuse, Rule

NODE = Request("GET", "/api/v1/nodes/node-1")


async def test_an_object_is_plain_json(cluster: Cluster, client: KubeClient) -> None:
    assert (await client.call(NODE))["metadata"]["name"] == "node-1"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/api/v1/nodes/absent", NotFoundError),
        ("/api/v1/pods?resourceVersion=1&resourceVersionMatch=Exact", GoneError),
        ("/api/v1/pods?fieldSelector=nonsense", RejectedError),
    ],
)
async def test_a_refusal_says_by_its_class_what_to_do(
    cluster: Cluster, client: KubeClient, path: str, error: type[Exception]
) -> None:
    cluster.api.expire_history()
    with pytest.raises(error):
        await client.call(Request("GET", path))


@pytest.mark.parametrize("act", [Drop(), Refuse(503), Refuse(429, retry_after_seconds=0)])
async def test_what_fails_for_a_moment_is_tried_again(
    cluster: Cluster, client: KubeClient, act: Drop | Refuse
) -> None:
    cluster.api.misbehaviour.add(Rule(act, path="/nodes/node-1", times=2))
    assert (await client.call(NODE))["metadata"]["name"] == "node-1"


async def test_what_keeps_failing_ends_after_a_bounded_number_of_tries(
    cluster: Cluster, client: KubeClient
) -> None:
    rule = cluster.api.misbehaviour.add(Rule(Drop(), path="/nodes/node-1", times=100))
    with pytest.raises(TransientKubeError):
        await client.call(NODE)
    assert rule.times is not None
    dropped_connections_are_asked_once_more = 2
    assert 100 - rule.times <= tuning.MAX_TRIES * dropped_connections_are_asked_once_more


async def test_a_server_that_says_nothing_is_given_up(
    cluster: Cluster, client: KubeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "REQUEST_SECONDS", 0.2)
    cluster.api.misbehaviour.add(Rule(Hang(30.0), path="/nodes/node-1"))
    with pytest.raises(TransientKubeError, match="Timeout"):
        await client.call_once(NODE)


async def test_a_cluster_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    nowhere = tmp_path / "kubeconfig"
    with pytest.raises(KubeConfigError, match=str(nowhere)):
        async with connect(nowhere, user_agent="everstep-test/1"):
            pass


async def test_outside_a_cluster_without_a_kubeconfig_the_error_says_so() -> None:
    with pytest.raises(KubeConfigError, match="service account"):
        async with connect(None, user_agent="everstep-test/1"):
            pass
