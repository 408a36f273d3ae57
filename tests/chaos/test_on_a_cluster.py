"""Services that know their cluster by KUBECONFIG alone: a node dies, and all of it is put right.

The cluster is a process of its own, and the job is the one to copy. Nothing in here but how the
node dies, and how a place for the replacement comes free, is about simulated kubelets.
"""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import agent_seed_path, role_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_cli.drill.cluster import ClusterClient, Object
from everstep_contract.clients import Role, service_client_name
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from support.agent_fleet import template
from support.manifests import ROOT, loaded
from support.polling import eventually
from support.service_processes import service_process, settings_of
from support.simcluster import FOREVER, NAMESPACE, pod_manifest

JOB: Final = JobKey(namespace=NAMESPACE, name="llama")
LOST: Final = "llama-worker-3"
SPARE: Final = "node-8"
SERVICES: Final[tuple[Role, ...]] = (
    "node_watcher",
    "adjudicator",
    "rescaler",
    "checkpoint_indexer",
)
FENCED_SECONDS: Final = 60.0 + 15.0
"""An agent without bus and step ends itself, and the rescaler waits a little longer."""
CLUSTER_SECONDS: Final = 150.0
QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
TAINT: Final = "everstep.dev/quarantined"


@dataclass
class World:
    """The cluster, the bus, and the way to both."""

    cluster: ClusterClient
    session: aiohttp.ClientSession
    server: NatsServer
    credentials: Path
    folder: Path
    bus: Bus
    networks: bool

    async def steps_with(self, members: int, newer_than: int = 0) -> int:
        """Wait until a generation of so many members has completed a step; which one it is."""
        found = 0

        async def steps() -> bool:
            nonlocal found
            try:
                entry = await self.bus.kv(JOBS).get(JOB.token)
            except TransientBusError:
                return False
            record = entry.value if entry else None
            found = record.generation if record else 0
            formed = record is not None and record.phase == "resumed" and found > newer_than
            return formed and record is not None and len(record.seats) == members

        await eventually(steps, within_seconds=180, what=f"no step with {members} members")
        return found

    async def pods(self) -> dict[str, Object]:
        """The job's pods by name."""
        found = await self.cluster.pods(NAMESPACE)
        return {p["metadata"]["name"]: p for p in found if p["metadata"]["name"] != "occupant"}

    async def node(self, name: str) -> Object:
        """A node as Kubernetes knows it."""
        nodes = await self.cluster.node_objects()
        return next(node for node in nodes if node["metadata"]["name"] == name)

    async def writes(self, method: str, path: str) -> list[Object]:
        """What Everstep has written there, by the API server's audit, and was not refused."""
        return [
            entry
            for entry in await self.cluster.audit()
            if entry["method"] == method
            and entry["path"].startswith(path)
            and entry["user_agent"].startswith("everstep-")
            and entry["status"] < 300
        ]

    async def post(self, path: str, body: Object) -> None:
        """Create an object."""
        async with self.session.post(path, json=body) as answer:
            assert answer.status == 201, await answer.text()

    def everstep(self, *command: str) -> str:
        """What the command line answers an operator."""
        seed = role_seed_path(self.credentials, "operator")
        done = subprocess.run(
            [sys.executable, "-m", "everstep_cli", *command],
            env=without_everstep()
            | {"EVERSTEP_NATS_URL": self.server.url, "EVERSTEP_NATS_SEED_PATH": str(seed)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr


def without_everstep() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if "EVERSTEP_" not in name}


@pytest.fixture
def cluster_process(tmp_path: Path) -> Iterator[Object]:
    """Nine nodes; what the cluster says of itself when it is ready."""
    with template(tmp_path) as socket:
        command = [sys.executable, "-m", "everstep_simcluster", "--nodes", "9"]
        command += ["--namespaces", NAMESPACE, "--template-socket", str(socket)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
            process.terminate()


@pytest.fixture
async def world(cluster_process: Object, tmp_path: Path) -> AsyncIterator[World]:
    """All of Everstep, told of the cluster by KUBECONFIG and by nothing else."""
    credentials = tmp_path / "credentials"
    host = cluster_process["bus_address"]
    server = NatsServer(ServerSettings(tmp_path / "nats", credentials, host=host, jobs=(JOB,)))
    server.start()
    async with AsyncExitStack() as stack:
        stack.callback(server.kill)
        there = {
            "EVERSTEP_CLUSTER": "kubernetes",
            "EVERSTEP_MODE": "act",
            "KUBECONFIG": cluster_process["kubeconfig"],
        }
        for role in SERVICES:
            variables = settings_of(role, server.url, credentials) | of_the_cluster(role, there)
            process = service_process(role, variables, tmp_path / f"{role}.log")
            await stack.enter_async_context(process)
        seed, name = role_seed_path(credentials, "operator"), service_client_name("operator", "t")
        bus = await stack.enter_async_context(connect((server.url,), name, seed_path=seed))
        urls = cluster_process["url"], cluster_process["control_url"]
        cluster = await stack.enter_async_context(ClusterClient(*urls))
        session = await stack.enter_async_context(aiohttp.ClientSession(urls[0]))
        networks = cluster_process["networks"] == "namespaces"
        yield World(cluster, session, server, credentials, tmp_path, bus, networks)


def of_the_cluster(role: Role, there: dict[str, str]) -> dict[str, str]:
    match role:
        case "rescaler":
            return there
        case "node_watcher":
            return {name: value for name, value in there.items() if name != "EVERSTEP_MODE"}
        case _:
            return {}


def job_here(world: World) -> Object:
    """The manifest to copy, with this machine's paths, and one worker a member."""
    (job,) = loaded(ROOT / "deploy" / "volcano" / "job.yaml")
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    ours = {
        "EVERSTEP_NATS_URL": world.server.url,
        "EVERSTEP_NATS_SEED_PATH": str(agent_seed_path(world.credentials, JOB)),
        "EVERSTEP_CHECKPOINT_ROOT": str(world.folder),
    }
    for entry in container["env"]:
        if entry["name"] in ours:
            entry["value"] = ours[entry["name"]]
    container["env"].append({"name": "EVERSTEP_STEP_LOG", "value": str(world.folder / "steps")})
    words = [word.replace("/app/", f"{ROOT}/trainer/examples/") for word in container["command"]]
    words = ["--nproc-per-node=1" if w.startswith("--nproc-per-node") else w for w in words]
    container["command"] = [*words, "--steps=1000000"]
    return job


def occupant() -> Object:
    """A pod of somebody else's that has the ninth node to itself."""
    pod = pod_manifest("occupant", FOREVER, nodeName=SPARE)
    pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8, "rdma/hca": 8}}
    return pod


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def keys(node: Object) -> set[str]:
    return {taint["key"] for taint in node["spec"].get("taints") or ()}


async def lose(world: World, node: str) -> float:
    """Take its power; the instant. Without networks of their own nodes freeze, which is silent."""
    return await world.cluster.fault("power_off" if world.networks else "freeze", node)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_with_kubeconfig_alone_a_dead_node_is_replaced_fenced_and_released(
    world: World,
) -> None:
    await world.post(PODS, occupant())
    (queue,) = loaded(ROOT / "deploy" / "volcano" / "queue.yaml")
    await world.post(QUEUES, queue)
    await world.cluster.create_job(job_here(world))
    generation = await world.steps_with(8)
    before, machines = await world.pods(), await world.cluster.nodes()
    node = before[LOST]["spec"]["nodeName"]

    lost_at = await lose(world, node)
    generation = await world.steps_with(7, newer_than=generation)

    async def replacement_is_pending() -> bool:
        pod = (await world.pods()).get(LOST)
        return pod is not None and uid(pod) != uid(before[LOST])

    await eventually(replacement_is_pending, within_seconds=CLUSTER_SECONDS)
    pending = (await world.pods())[LOST]
    assert (pending["status"]["phase"], pending["spec"].get("nodeName")) == ("Pending", None)
    quarantined = await world.node(node)
    assert TAINT in keys(quarantined)
    assert quarantined["spec"]["unschedulable"] is True
    forced = [
        entry
        for entry in await world.writes("DELETE", f"{PODS}/{LOST}")
        if (entry["body"] or {}).get("gracePeriodSeconds") == 0
    ]
    assert len(forced) == 1
    assert datetime.fromisoformat(forced[0]["at"]).timestamp() >= lost_at + FENCED_SECONDS

    await world.cluster.delete_pod(NAMESPACE, "occupant")
    await world.steps_with(8, newer_than=generation)
    after, now = await world.pods(), await world.cluster.nodes()
    assert after[LOST]["spec"]["nodeName"] == SPARE
    survivors = before.keys() - {LOST}
    assert {name: uid(after[name]) for name in survivors} == {
        name: uid(before[name]) for name in survivors
    }
    for name in survivors:
        there = before[name]["spec"]["nodeName"]
        assert machines[there].pids <= now[there].pids, f"{name} has lost processes"
    assert await retries(world) == 0
    assert len(await world.writes("DELETE", f"{PODS}/{LOST}")) == 2  # plainly first, then by force
    assert len(await world.writes("DELETE", PODS)) == 2

    world.everstep("release", node, "--reason", "it was repaired")
    released = await world.node(node)
    assert TAINT not in keys(released)
    assert not released["spec"].get("unschedulable")
    assert {entry["path"] for entry in await world.writes("PATCH", "/api/v1/nodes/")} == {
        f"/api/v1/nodes/{node}"
    }


async def retries(world: World) -> int:
    job: dict[str, Any] = await world.cluster.job(JOB.namespace, JOB.name)
    return int(job["status"].get("retryCount") or 0)
