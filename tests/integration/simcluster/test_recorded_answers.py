"""The simulated API server answers as a genuine one was recorded answering."""

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from everstep_simcluster.api_server import ApiServer
from everstep_simcluster.objects import Objects
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import JOBS, NAMESPACES, NODES, PODS, QUEUES
from everstep_simcluster.store import Ref, Store
from support.recorded import Exchange, Translation, exchanges

TRANSCRIPTS = Path(__file__).parent / "transcripts"
NAMESPACE = "everstep"
MEMBERS = range(8)

NOT_SIMULATED = {
    ("03-namespace-pods.json", 2): "a namespace's default ServiceAccount is not waited for",
    ("04-volcano-crs-no-controller.json", 6): "unknown fields are kept, never refused",
    ("11-volcano-webhook.json", 0): "the webhook is never down",
    **{
        ("05-patch-and-conflict.json", number): "server-side apply"
        for number in (10, 11, 12, 13, 14)
    },
}
WORDED_OTHERWISE = {
    ("03-namespace-pods.json", 8): "the refusal carries no diff of the two specs",
    ("07b-gone-410.json", 3): "what the parser of the token says",
}
MASKED = (
    (re.compile(r"\b(train-restart|bad)-[a-z0-9]{5}\b"), r"\1-?????"),
    (re.compile(r"(too old resource version: \d+) \(\d+\)"), r"\1 (?)"),
)
"""Random endings of names, and a revision inside a sentence."""

IGNORED_FIELDS = ("volumes", "volumeMounts", "memory", "managedFields")


def ready_nodes(objects: Objects) -> None:
    for index in MEMBERS:
        if objects.find(NODES, Ref("", f"node-{index}")) is None:
            labels = {"kubernetes.io/hostname": f"node-{index}", "everstep/rack": f"r{index // 4}"}
            amounts = {"cpu": "96", "pods": "110", "nvidia.com/gpu": "8"}
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [READY]}
            metadata = {"name": f"node-{index}", "labels": labels}
            objects.create(NODES, "", {"metadata": metadata, "status": status})


READY = {
    "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok",
    "lastHeartbeatTime": "2026-11-29T14:16:43Z", "lastTransitionTime": "2026-11-29T14:16:43Z",
}  # fmt: skip


def namespace(objects: Objects) -> None:
    objects.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})


def bound_pods(objects: Objects) -> None:
    namespace(objects)
    for index in MEMBERS:
        limits = {"nvidia.com/gpu": 8}
        container = {"name": "c", "image": "registry.invalid/train:1"}
        metadata = {
            "name": f"train-worker-{index}",
            "labels": {"app": "train"},
            "annotations": {"scheduling.k8s.io/group-name": "train"},
        }
        spec = {
            "schedulerName": "volcano",
            "containers": [{**container, "resources": {"limits": limits}}],
        }
        objects.create(PODS, NAMESPACE, {"metadata": metadata, "spec": spec})
        ref = Ref(NAMESPACE, f"train-worker-{index}")
        objects.bind(ref, f"node-{index}")
        bound = objects.get(PODS, ref)["status"]
        running = [{"type": "Ready", "status": "True"}, *bound["conditions"]]
        status = {**bound, "phase": "Running", "conditions": running}
        status["startTime"] = "2026-11-29T14:16:44Z"
        objects.set_status(PODS, ref, status)


def forgotten_past(objects: Objects) -> None:
    bound_pods(objects)
    objects.store.forget_history()


def volcano(objects: Objects) -> None:
    objects.create(NAMESPACES, "", {"metadata": {"name": "vj"}})
    objects.create(QUEUES, "", {"metadata": {"name": "default"}})


def applied_label(objects: Objects) -> None:
    label = {"metadata": {"labels": {"everstep.example/state": "active"}}}
    objects.patch(NODES, Ref("", "node-1"), Patch(MERGE_PATCH, label))


def pending_job(objects: Objects) -> None:
    since = {"lastTransitionTime": "2026-11-29T14:35:23Z"}
    status = {
        "conditions": [{**since, "status": "Pending"}],
        "minAvailable": 6,
        "state": {**since, "phase": "Pending"},
    }
    objects.set_status(JOBS, Ref("vj", "hook"), status)


BEFORE: dict[tuple[str, int], Callable[[Objects], None]] = {
    ("02-nodes.json", 2): ready_nodes,
    ("03-namespace-pods.json", 9): ready_nodes,
    ("04-volcano-crs-no-controller.json", 0): namespace,
    ("05-patch-and-conflict.json", 0): ready_nodes,
    ("05-patch-and-conflict.json", 15): applied_label,
    ("06-pod-delete-evict.json", 0): bound_pods,
    ("07b-gone-410.json", 0): forgotten_past,
    ("11-volcano-webhook.json", 1): volcano,
    ("11-volcano-webhook.json", 6): pending_job,
}
"""What was there in the recording without an exchange that shows it."""


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ApiServer]:
    with_webhook = "webhook" in request.node.callspec.params["transcript"].name
    server = ApiServer(Objects(Store(), volcano_webhook=with_webhook))
    await server.start()
    yield server
    await server.kill()


@pytest.mark.parametrize(
    "transcript", sorted(TRANSCRIPTS.glob("*.json")), ids=lambda path: path.stem
)
async def test_every_recorded_request_gets_the_recorded_answer(
    transcript: Path, server: ApiServer
) -> None:
    translation = Translation()
    wrong: list[str] = []
    async with aiohttp.ClientSession(server.url) as session:
        for exchange in exchanges(transcript):
            prepare = BEFORE.get((transcript.name, exchange.number))
            if prepare is not None:
                prepare(server.objects)
            if (transcript.name, exchange.number) not in NOT_SIMULATED:
                wrong += await replay(session, transcript.name, exchange, translation)
    assert not wrong, "\n".join(wrong)


async def replay(
    session: aiohttp.ClientSession, transcript: str, exchange: Exchange, translation: Translation
) -> list[str]:
    body = None
    if exchange.body is not None:
        body = translation.request_text(json.dumps(exchange.body))
    async with session.request(
        exchange.method,
        translation.request_text(exchange.path),
        data=body,
        headers={"Content-Type": exchange.content_type or "application/json"},
    ) as response:
        status, text = response.status, await response.text()
        retry_after = response.headers.get("Retry-After")
    what = f"{exchange.number} {exchange.note}"
    if status != exchange.status:
        return [f"{what}: {exchange.status} recorded, {status} ours: {text[:300]}"]
    if retry_after != exchange.retry_after:
        return [f"{what}: Retry-After {exchange.retry_after} recorded, {retry_after} ours"]
    if (transcript, exchange.number) in WORDED_OTHERWISE:
        return []
    recorded = without(exchange.answer, IGNORED_FIELDS)
    recorded = json.loads(masked(json.dumps(recorded)))
    found = translation.differences(recorded, parsed(masked(text), exchange))
    return [f"{what}: {difference}" for difference in found]


def parsed(text: str, exchange: Exchange) -> object:
    """Our answer in the recording's form: text, JSON, or the list of a watch's events."""
    if isinstance(exchange.answer, str):
        return text
    if isinstance(exchange.answer, list):
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def masked(text: str) -> str:
    for pattern, mask in MASKED:
        text = pattern.sub(mask, text)
    return text


def without(body: object, fields: tuple[str, ...]) -> object:
    if isinstance(body, dict):
        return {key: without(value, fields) for key, value in body.items() if key not in fields}
    if isinstance(body, list):
        return [without(item, fields) for item in body]
    return body
