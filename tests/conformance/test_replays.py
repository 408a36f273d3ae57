"""Requests that were recorded on a genuine API server get the answers that were recorded there.

No controller ran in the recordings. On a server where some do, only what they leave alone is sent,
and of the answers only status, kind, reason, causes and names are compared: versions differ in the
rest. A simulated server has to give the whole answer.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.conformance.api import MERGE, STRATEGIC, Api
from support.conformance.fake_nodes import NODES
from support.conformance.ground import NAMESPACES
from support.conformance.probing import Probes
from support.conformance.replaying import Stage, essence
from support.conformance.simulated import simulated_cluster
from support.recorded import Exchange, exchanges

RECORDS = Path(__file__).parent / "records"
MEMBERS = range(8)

NOT_SIMULATED = {
    ("03-namespace-pods.json", 2): "a namespace's default ServiceAccount is not waited for",
    ("04-volcano-crs-no-controller.json", 6): "unknown fields are kept, never refused",
    ("11-volcano-webhook.json", 0): "the webhook is never down",
    ("12-limits-misc.json", 7): "events.k8s.io is not served",
    **{
        ("05-patch-and-conflict.json", number): "server-side apply"
        for number in (10, 11, 12, 13, 14)
    },
}
BODY_NOT_RECORDED = {("12-limits-misc.json", number) for number in (0, 1, 2)}
"""Too large to be written down; `test_limits` makes such bodies."""

NOT_ON_A_REAL_SERVER = {
    ("03-namespace-pods.json", 2): "the ServiceAccount may be there at once",
    ("04-volcano-crs-no-controller.json", 0): "a Queue belongs to the whole cluster",
    ("11-volcano-webhook.json", 0): "the webhook is not taken down",
    ("05-patch-and-conflict.json", 15): "answers to an unknown form of patch differ in detail",
}
HARMLESS_BESIDE_CONTROLLERS = {
    "03-namespace-pods.json": {0, 1, 4, 9, 11},
    "06-pod-delete-evict.json": {0, 1, 2, 3, 4, 5, 6, 7, 16},
    "07b-gone-410.json": {0, 3, 4},
    "12-limits-misc.json": {3, 5, 6},
}
"""Nodes would be given pods, jobs would be run and budgets be reckoned with."""

WORDED_OTHERWISE = {
    ("03-namespace-pods.json", 8): "the refusal carries no diff of the two specs",
    ("12-limits-misc.json", 3): "the cause is told once, not four times",
    ("07b-gone-410.json", 3): "what the parser of the token says",
}
MASKED = (
    (re.compile(r"\b(train-restart|bad|x)-[a-z0-9]{5}\b"), r"\1-?????"),
    (re.compile(r"(too old resource version: \d+) \(\d+\)"), r"\1 (?)"),
)
"""Random endings of names, and a revision inside a sentence."""

IGNORED_FIELDS = ("volumes", "volumeMounts", "memory", "managedFields")

READY = {
    "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok",
    "lastHeartbeatTime": "2026-11-29T14:16:43Z", "lastTransitionTime": "2026-11-29T14:16:43Z",
}  # fmt: skip


def ready_nodes(stage: Stage) -> None:
    for index in MEMBERS:
        name = stage.translated(f"node-{index}")
        labels = {
            "kubernetes.io/hostname": name,
            stage.translated("everstep/rack"): f"r{index // 4}",
        }
        amounts = {"cpu": "96", "pods": "110", "nvidia.com/gpu": "8"}
        status = {"capacity": amounts, "allocatable": amounts}
        body = {"metadata": {"name": name, "labels": labels}, "status": status}
        stage.api.post(NODES, stage.safe(body)).expect(201, 409)
        ready = {"status": {"conditions": [READY]}}
        stage.api.patch(f"{NODES}/{name}/status", ready, STRATEGIC).expect(200)


def namespace(stage: Stage) -> None:
    body = {"metadata": {"name": stage.namespace}}
    stage.api.post(NAMESPACES, body).expect(201, 409)
    account = {"metadata": {"name": "default"}}
    stage.api.post(f"{NAMESPACES}/{stage.namespace}/serviceaccounts", account).expect(201, 409)


def bound_pods(stage: Stage) -> None:
    namespace(stage)
    if not stage.beside_controllers:
        ready_nodes(stage)
    pods = f"{NAMESPACES}/{stage.namespace}/pods"
    for index in MEMBERS:
        name = f"train-worker-{index}"
        container = {"name": "c", "image": "registry.invalid/train:1"}
        metadata = {
            "name": name,
            "labels": {"app": "train"},
            "annotations": {"scheduling.k8s.io/group-name": "train"},
        }
        limits = {"nvidia.com/gpu": "8"}
        spec = {
            "schedulerName": stage.translated("volcano"),
            "containers": [{**container, "resources": {"limits": limits}}],
        }
        stage.api.post(pods, {"metadata": metadata, "spec": spec}).expect(201)
        target = {"kind": "Node", "name": stage.translated(f"node-{index}")}
        body = {"metadata": {"name": name}, "target": target}
        stage.api.post(f"{pods}/{name}/binding", body).expect(201)
        ready = {"type": "Ready", "status": "True"}
        status = {"phase": "Running", "conditions": [ready], "startTime": "2026-11-29T14:16:44Z"}
        stage.api.patch(f"{pods}/{name}/status", {"status": status}, STRATEGIC).expect(200)


def forgotten_past(stage: Stage) -> None:
    bound_pods(stage)
    if stage.strict:
        stage.api.post("/everstep-sim/api/expire-history", None).expect(200)


def volcano(stage: Stage) -> None:
    namespace(stage)
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    queue = {**body, "metadata": {"name": "default"}, "spec": {"weight": 1}}
    stage.api.post("/apis/scheduling.volcano.sh/v1beta1/queues", queue).expect(201, 409)


def applied_label(stage: Stage) -> None:
    label = {"metadata": {"labels": {stage.translated("everstep.example/state"): "active"}}}
    path = f"{NODES}/{stage.translated('node-1')}"
    stage.api.patch(path, label, MERGE).expect(200)


def pending_job(stage: Stage) -> None:
    since = {"lastTransitionTime": "2026-11-29T14:35:23Z"}
    status = {
        "conditions": [{**since, "status": "Pending"}],
        "minAvailable": 6,
        "state": {**since, "phase": "Pending"},
    }
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{stage.namespace}/jobs/hook/status"
    stage.api.patch(path, {"status": status}, MERGE).expect(200)


def nodes_and_namespace(stage: Stage) -> None:
    namespace(stage)
    if not stage.beside_controllers:
        ready_nodes(stage)


BEFORE: dict[tuple[str, int], Callable[[Stage], None]] = {
    ("02-nodes.json", 2): ready_nodes,
    ("03-namespace-pods.json", 9): nodes_and_namespace,
    ("04-volcano-crs-no-controller.json", 0): namespace,
    ("05-patch-and-conflict.json", 0): ready_nodes,
    ("05-patch-and-conflict.json", 15): applied_label,
    ("06-pod-delete-evict.json", 0): bound_pods,
    ("07b-gone-410.json", 0): forgotten_past,
    ("11-volcano-webhook.json", 1): volcano,
    ("11-volcano-webhook.json", 6): pending_job,
    ("12-limits-misc.json", 3): nodes_and_namespace,
}
"""What was there in the recording without an exchange that shows it."""


@pytest.fixture(scope="module")
def bare() -> Iterator[Api]:
    """An API server, simulated, and nothing else."""
    with simulated_cluster("--no-controllers", "--no-volcano-webhook") as kubeconfig:
        yield Api(kubeconfig)


@pytest.fixture(scope="module")
def bare_with_webhook() -> Iterator[Api]:
    """The same with Volcano's webhook."""
    with simulated_cluster("--no-controllers") as kubeconfig:
        yield Api(kubeconfig)


@pytest.fixture
def stage(request: pytest.FixtureRequest, simulated: bool) -> Iterator[Stage]:
    """Where one transcript is played: a bare API server, or a corner of a real cluster."""
    name = request.node.callspec.params["transcript"].name
    if simulated:
        fixture = "bare_with_webhook" if "webhook" in name else "bare"
        stage = Stage(request.getfixturevalue(fixture), Path(name).stem, strict=True)
        yield stage
        stage.close()
        return
    run: str = request.getfixturevalue("run")
    probes: Probes = request.getfixturevalue("probes")
    beside = any(not probes.missing(one) for one in ("node controller", "volcano"))
    if not beside and ("webhook" in name) is bool(probes.missing("volcano webhook")):
        pytest.skip("this was recorded with Volcano's webhook" if "webhook" in name else "without")
    if beside and name not in HARMLESS_BESIDE_CONTROLLERS:
        pytest.skip("controllers run here, and none did in the recording")
    api: Api = request.getfixturevalue("api")
    old = {"resourceVersion": "1", "resourceVersionMatch": "Exact"}
    if "gone" in name and api.get(f"{NAMESPACES}/default/pods", **old).status == 200:
        pytest.skip("this server is so young that it still knows its first revision")
    nodes = request.getfixturevalue("all_nodes") if beside else None
    stage = Stage(api, run, strict=False, nodes=nodes)
    try:
        yield stage
    finally:
        stage.close()


@pytest.mark.parametrize("transcript", sorted(RECORDS.glob("*.json")), ids=lambda path: path.stem)
def test_every_recorded_request_gets_the_recorded_answer(transcript: Path, stage: Stage) -> None:
    wrong: list[str] = []
    for exchange in exchanges(transcript):
        key = (transcript.name, exchange.number)
        prepare = BEFORE.get(key)
        if prepare is not None:
            prepare(stage)
        if is_played(key, stage):
            wrong += replay(stage, key, exchange)
    assert not wrong, "\n".join(wrong)


def is_played(key: tuple[str, int], stage: Stage) -> bool:
    if key in BODY_NOT_RECORDED:
        return False
    if stage.strict:
        return key not in NOT_SIMULATED
    if stage.beside_controllers:
        return key[1] in HARMLESS_BESIDE_CONTROLLERS[key[0]]
    return key not in NOT_ON_A_REAL_SERVER


def replay(stage: Stage, key: tuple[str, int], exchange: Exchange) -> list[str]:
    status, retry_after, text = stage.send(exchange)
    what = f"{exchange.number} {exchange.note}"
    if status != exchange.status:
        return [f"{what}: {exchange.status} recorded, {status} ours: {text[:300]}"]
    if retry_after != exchange.retry_after:
        return [f"{what}: Retry-After {exchange.retry_after} recorded, {retry_after} ours"]
    if key in WORDED_OTHERWISE and stage.strict:
        return []
    recorded = json.loads(masked(json.dumps(without(exchange.answer, IGNORED_FIELDS))))
    ours = parsed(masked(text), exchange)
    if not stage.strict:
        stage.learn(recorded, ours)
        recorded, ours = essence(recorded), essence(ours)
    found = stage.translation.differences(recorded, ours)
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
