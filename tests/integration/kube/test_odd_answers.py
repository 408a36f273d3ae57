"""What is no API server, or a broken one: an error that names it, and never a wait without end."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from everstep_contract.identity import JobKey
from everstep_kube import access, answers
from everstep_kube import client as tuning
from everstep_kube.client import KubeClient, Request, connect
from everstep_kube.errors import (
    AnswerTooLargeError,
    DeniedError,
    InvalidError,
    KubeConfigError,
    ThrottledError,
    UnavailableError,
)
from everstep_kube.writing import ClusterApi
from support.odd_server import Answer, odd_server, write_kubeconfig
from support.polling import eventually

NODES = Request("GET", "/api/v1/nodes")
CORDON = Request("PATCH", "/api/v1/nodes/n", body={"spec": {"unschedulable": True}})


@asynccontextmanager
async def facing(tmp_path: Path, answer: Answer) -> AsyncIterator[KubeClient]:
    async with odd_server(answer) as url:
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", url)
        async with connect(kubeconfig, user_agent="everstep-test/1") as client:
            yield client


@pytest.mark.parametrize(
    ("response", "error", "names"),
    [
        ({"text": "<html>log in</html>", "content_type": "text/html"}, UnavailableError, "log in"),
        ({"text": "[1, 2]", "content_type": "application/json"}, UnavailableError, "not a JSON"),
        ({"text": "[" * 100_000}, UnavailableError, "not a JSON"),
        ({"body": b"\xff\xfe"}, UnavailableError, "not a JSON"),
        ({"status": 204}, UnavailableError, "not a JSON"),
        ({"status": 302, "headers": {"Location": "http://login"}}, UnavailableError, "login"),
        ({"status": 502, "text": "<html>bad gateway</html>"}, UnavailableError, "bad gateway"),
        ({"status": 418, "text": "{"}, InvalidError, "418"),
        ({"status": 403, "text": '{"message": 5, "details": 7}'}, DeniedError, "403"),
        ({"status": 429, "text": "null"}, ThrottledError, "429"),
    ],
)
async def test_what_is_no_answer_of_an_api_server_is_named(
    tmp_path: Path, response: dict[str, object], error: type[Exception], names: str
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(**response)  # type: ignore[arg-type]  # each case has its own

    async with facing(tmp_path, answer) as client:
        with pytest.raises(error, match=names):
            await client.call_once(NODES)


async def test_a_write_does_not_follow_a_redirect(tmp_path: Path) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path}")
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with facing(tmp_path, answer) as client:
        with pytest.raises(UnavailableError):
            await client.call_once(CORDON)
    assert asked == ["PATCH /api/v1/nodes/n"]


async def test_an_answer_without_end_is_cut_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "ANSWER_BYTES_LIMIT", 1000)

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="x" * 2000)

    async with facing(tmp_path, answer) as client:
        with pytest.raises(AnswerTooLargeError):
            await client.call(NODES)


async def test_a_server_that_dribbles_does_not_hold_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "TRY_SECONDS", 0.3)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.01)

    async with facing(tmp_path, answer) as client:
        with pytest.raises(UnavailableError, match="Timeout"):
            await client.call_once(NODES)


async def test_all_tries_of_a_call_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "CALL_SECONDS", 0.3)
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=503, headers={"Retry-After": "1"})

    async with facing(tmp_path, answer) as client:
        with pytest.raises(UnavailableError):
            await client.call(NODES)
    assert len(asked) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "[]",
        "just words",
        "a: {b",
        "\x00",
        "current-context: it",
        "apiVersion: v1\ncurrent-context: it\ncontexts: 7\nclusters: [x]\n",
        "apiVersion: v1\ncurrent-context: it\nclusters: [{name: it, cluster: {server: 7}}]\n"
        "contexts: [{name: it, context: {cluster: it}}]\n",
    ],
)
async def test_a_broken_kubeconfig_is_a_clear_error(tmp_path: Path, wrong: str) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(wrong)
    with pytest.raises(KubeConfigError, match=str(kubeconfig)):
        async with connect(kubeconfig, user_agent="everstep-test/1"):
            pass


async def test_a_kubeconfig_of_nothing_is_named_and_passed_over_beside_another(
    tmp_path: Path,
) -> None:
    empty, other = tmp_path / "empty", tmp_path / "list"
    empty.write_text("# nothing\n")
    other.write_text("[1]")
    with pytest.raises(KubeConfigError, match="it is empty"):
        async with connect(empty, user_agent="everstep-test/1"):
            pass
    with pytest.raises(KubeConfigError, match="list is no kubeconfig"):
        async with connect(other, user_agent="everstep-test/1"):
            pass
    good = write_kubeconfig(tmp_path / "good", "http://127.0.0.1:1")
    async with connect((empty, good), user_agent="everstep-test/1"):
        pass


async def test_a_plugin_that_hangs_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "LOAD_SECONDS", 0.2)
    ended = tmp_path / "ended"
    late = {"command": "sh", "args": ["-c", f"sleep 0.4; exec touch {ended}"]}
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", **late}
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", exec=plugin)
    with pytest.raises(KubeConfigError, match=r"within 0\.2 s; a credential plugin may hang"):
        async with connect(kubeconfig, user_agent="everstep-test/1"):
            pass
    await eventually(ended.exists)


async def test_a_plugin_that_gives_no_credentials_is_a_clear_error(tmp_path: Path) -> None:
    plugin = {"command": "false", "apiVersion": "client.authentication.k8s.io/v1"}
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1", exec=plugin)
    with pytest.raises(KubeConfigError, match="plugin"):
        async with connect(kubeconfig, user_agent="everstep-test/1"):
            pass


@pytest.mark.parametrize(
    "said",
    [{}, {"metadata": None}, {"metadata": {"name": "n", "labels": 5, "namespace": 5}}],
)
async def test_an_object_that_is_none_is_an_error_that_names_what_was_asked(
    tmp_path: Path, said: dict[str, object]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=json.dumps(said), content_type="application/json")

    job = JobKey(namespace="training", name="llama")
    async with facing(tmp_path, answer) as client:
        api = ClusterApi(client)
        for asked in (api.job(job), api.sizes.read(job)):
            with pytest.raises(UnavailableError, match="jobs/llama"):
                await asked
        if "name" not in (said.get("metadata") or ()):  # type: ignore[operator]  # JSON
            with pytest.raises(UnavailableError, match="nodes/n"):
                await api.node("n")
        assert await api.pod("training", "llama-worker-0") is None


@pytest.mark.parametrize("name", ["n/status", "n?watch=1", "..", "n#", "N", "n\n", "ä", "n" * 254])
async def test_what_can_be_no_name_is_not_asked_for(tmp_path: Path, name: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text='{"metadata": {"name": "n"}}', content_type="application/json")

    async with facing(tmp_path, answer) as client:
        assert await ClusterApi(client).node(name) is None
