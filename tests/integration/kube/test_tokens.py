"""Tokens rotate: no call fails for it, no change is missed, and what is wrong is told at once."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import certifi
import pytest
from everstep_kube import access as tuning
from everstep_kube.access import Entrance
from everstep_kube.client import KubeClient, Request, connect
from everstep_kube.errors import DeniedError
from everstep_simcluster.cluster import Cluster
from support.following import create, following
from support.odd_server import write_kubeconfig
from support.polling import eventually

NODE = Request("GET", "/api/v1/nodes/node-1")


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "SPACING_SECONDS", 0.0)


@asynccontextmanager
async def holding(cluster: Cluster, folder: Path, token: str) -> AsyncIterator[KubeClient]:
    """A client with a token file, and a server that wants this token."""
    cluster.api.tokens.issue(token)
    file = folder / "token"
    file.write_text(f"{token}\n")
    kubeconfig = write_kubeconfig(folder / "kubeconfig", cluster.url, tokenFile=str(file))
    async with connect(kubeconfig, user_agent="everstep-test/1") as client:
        yield client


def refusals(cluster: Cluster) -> int:
    return sum(write.status == 401 for write in cluster.api.audit.matching(user_agent="test"))


async def test_ec40_a_token_that_was_rotated_fails_no_call(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with holding(cluster, tmp_path, "first") as client:
        await client.call_once(NODE)
        (tmp_path / "token").write_text("second")
        cluster.api.tokens.issue("second", leeway_seconds=0)
        patch = Request("PATCH", NODE.path, body={}, content_type="application/merge-patch+json")
        await client.call_once(patch)
        await client.call_once(patch)
        assert refusals(cluster) == 1


async def test_ec40_within_the_leeway_the_token_is_read_in_time_and_nothing_is_refused(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "REFRESH_SECONDS", 0.0)
    async with holding(cluster, tmp_path, "first") as client:
        (tmp_path / "token").write_text("second")
        cluster.api.tokens.issue("second")
        patch = Request("PATCH", NODE.path, body={}, content_type="application/merge-patch+json")
        await client.call_once(patch)
        cluster.api.tokens.issue("second", leeway_seconds=0)
        await client.call_once(patch)
        assert refusals(cluster) == 0


async def test_ec40_a_follower_lives_through_rotations(cluster: Cluster, tmp_path: Path) -> None:
    async with holding(cluster, tmp_path, "token-0") as client, following(client) as seen:
        for turn in range(1, 4):
            cluster.api.tokens.issue(f"token-{turn}", leeway_seconds=0)
            (tmp_path / "token").write_text(f"token-{turn}")
            await eventually(lambda: cluster.api.open_watches)
            cluster.api.blackhole_watches()
            create(cluster, f"pod-{turn}")
            await eventually(partial(lambda name: name in seen.present, f"pod-{turn}"))
        assert seen.present == {"pod-1", "pod-2", "pod-3"}


async def test_ec40_a_token_that_stays_wrong_is_denied_and_taken_up_once_it_is_right(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with holding(cluster, tmp_path, "first") as client:
        cluster.api.tokens.issue("second", leeway_seconds=0)
        with pytest.raises(DeniedError, match="401"):
            await client.call(NODE)
        (tmp_path / "token").unlink()
        with pytest.raises(DeniedError, match="401"):
            await client.call(NODE)
        (tmp_path / "token").write_text("second")
        await client.call(NODE)


async def test_ec40_a_plugins_token_is_asked_for_anew_when_it_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    version = "client.authentication.k8s.io/v1"
    answer = tmp_path / "answer"
    head = f'{{"apiVersion": "{version}", "kind": "ExecCredential", "status": {{"token": '
    answer.write_text(f'{head}"first"}}}}')
    plugin = {"command": "cat", "args": [str(answer)], "apiVersion": version}
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", cluster.url, exec=plugin)
    cluster.api.tokens.issue("first")
    async with connect(kubeconfig, user_agent="everstep-test/1") as client:
        await client.call_once(NODE)
        answer.write_text(f'{head}"second"}}}}')
        cluster.api.tokens.issue("second", leeway_seconds=0)
        await client.call_once(NODE)


async def test_ec40_a_pods_own_token_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, authority = tmp_path / "token", tmp_path / "ca.crt"
    token.write_text("first\n")
    shutil.copy(certifi.where(), authority)
    incluster = "kubernetes.aio.config.incluster_config"
    monkeypatch.setattr(f"{incluster}.SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(f"{incluster}.SERVICE_CERT_FILENAME", str(authority))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    entrance = Entrance(())
    first = await entrance.access()
    token.write_text("second\n")
    assert await entrance.differs_from(first)
    second = await entrance.access()
    assert [first.authorization, second.authorization] == ["bearer first", "bearer second"]
    assert second.tls is first.tls
    with authority.open("a") as file:
        file.write("\n# replaced\n")
    assert await entrance.differs_from(second)
    assert (await entrance.access()).tls is not first.tls
