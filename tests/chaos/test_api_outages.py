"""A member is lost while the API server is in trouble: what is right is done, once, afterwards.

Services are processes, agents are fakes, the bus and the API server are real enough to be lost.
"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import pytest
from everstep_cli.drill.audit import ClusterWrite, cluster_writes
from everstep_contract.clients import Role
from everstep_contract.identity import GangSpec
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Act, Hang, Refuse, Rule
from everstep_simcluster.resources import Object
from everstep_simcluster.settings import ClusterSettings
from support.fake_gang import FakeGang
from support.messages import OTHER_JOB
from support.nats_world import NatsWorld
from support.polling import eventually
from support.service_processes import ServiceProcess, service_process, settings_of
from support.simcluster import job_manifest

Trouble = Literal["down", "hung", "throttled", "failing", "restarted"]
ANSWERS: Final[dict[Trouble, Act]] = {
    "hung": Hang(600.0),
    "throttled": Refuse(429, retry_after_seconds=1),
    "failing": Refuse(500),
}
GANG: Final = GangSpec(min_member=2, max_member=3, nproc_per_node=1)
HASTY: Final[dict[Role, dict[str, str]]] = {
    "node_watcher": {"EVERSTEP_NOT_READY_SECONDS": "1"},
    "adjudicator": {"EVERSTEP_SELF_FENCE_SECONDS": "1"},
    "rescaler": {
        "EVERSTEP_MODE": "act",
        "EVERSTEP_AGENT_SILENT_SECONDS": "1",
        "EVERSTEP_QUARANTINE_SILENCE_SECONDS": "1.5",
        "EVERSTEP_FENCE_MARGIN_SECONDS": "0.5",
        "EVERSTEP_WELL_SECONDS": "0.5",
    },
}
LOST: Final = "bert-worker-1"
ONCE: Final = ("taint", "cordon", "delete_pod", "force_delete_pod", "release")
LOST_SECONDS: Final = 15.0
"""An order waits for no API server."""
RECOVERY_SECONDS: Final = 60.0
"""A try that hangs is given up after 10 s, and the pause after it is up to 10 s long."""
STALE_SECONDS: Final = 45.0


@dataclass
class World:
    """A job of three that runs, and who looks after it."""

    cluster: Cluster
    gang: FakeGang
    watcher: ServiceProcess

    def pods(self) -> dict[str, Object]:
        return {pod["metadata"]["name"]: pod for pod in self.cluster.pods(OTHER_JOB.namespace)}

    def writes(self, since: datetime) -> tuple[ClusterWrite, ...]:
        """What Everstep has written and the API server has taken."""
        audit = [{**asdict(one), "at": one.at.isoformat()} for one in self.cluster.audit]
        return cluster_writes(audit, since)

    def written(self, since: datetime) -> Counter[str]:
        """How often each verb was written."""
        return Counter(verb for write in self.writes(since) for verb in write.verbs)

    async def metric(self, line: str) -> float:
        """A sample of the watcher's; line: its name with labels."""
        said = (await self.watcher.get("/metrics")).splitlines()
        return next(float(one.rpartition(" ")[2]) for one in said if one.startswith(line))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    settings = ClusterSettings(
        nodes=3,
        networks="none",
        namespaces=(OTHER_JOB.namespace,),
        heartbeat_seconds=0.1,
        node_grace_seconds=0.6,
    )
    bus = NatsWorld(tmp_path)
    await bus.start()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(bus.close)
        cluster = await stack.enter_async_context(Cluster(settings))
        here = {"EVERSTEP_CLUSTER": "kubernetes", "KUBECONFIG": str(cluster.kubeconfig_path)}
        services: dict[Role, ServiceProcess] = {}
        for role, hasty in HASTY.items():
            variables = settings_of(role, bus.server.url, bus.credentials) | hasty
            variables |= {} if role == "adjudicator" else here
            process = service_process(role, variables, tmp_path / f"{role}.log")
            services[role] = await stack.enter_async_context(process)
        for service in services.values():
            await eventually(service.is_ready)
        manifest = job_manifest(OTHER_JOB.name)
        manifest["metadata"]["namespace"] = OTHER_JOB.namespace
        cluster.create_job(manifest)
        world = World(cluster, FakeGang(bus, OTHER_JOB, GANG), services["node_watcher"])
        await cluster.wait_for(lambda: all_run(world))
        await world.gang.start(list(world.pods().values()), stack)
        await eventually(lambda: world.gang.steps_with(3))
        await eventually(lambda: world.written(datetime.min.replace(tzinfo=UTC))["annotate"] == 1)
        yield world


def all_run(world: World) -> bool:
    return [pod["status"].get("phase") for pod in world.pods().values()] == ["Running"] * 3


async def begin(cluster: Cluster, trouble: Trouble) -> None:
    """Begin it for whoever is connected, too."""
    if trouble in ANSWERS:
        cluster.api.misbehaviour.add(Rule(ANSWERS[trouble]))
    match trouble:
        case "down":
            await cluster.api.kill()
        case "hung":
            cluster.api.blackhole_watches()
        case "throttled" | "failing" | "restarted":
            await cluster.api.restart()


async def end(cluster: Cluster) -> None:
    cluster.api.misbehaviour.clear()
    if not cluster.api.is_serving:
        await cluster.api.come_back()


async def lose(world: World) -> str:
    """A node loses its power, and its agent with it; which one."""
    node = str(world.pods()[LOST]["spec"]["nodeName"])
    await world.cluster.faults.power_off(node)
    await world.gang.kill(LOST)
    return node


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "trouble",
    ["down", pytest.param("hung", marks=pytest.mark.slow), "throttled", "failing", "restarted"],
)
async def test_a_loss_in_an_outage_is_healed_at_once_and_isolated_afterwards_and_once(
    world: World, trouble: Trouble
) -> None:
    before, since = world.pods(), datetime.now(UTC)
    await begin(world.cluster, trouble)
    node = await lose(world)
    await eventually(lambda: world.gang.steps_with(2), within_seconds=LOST_SECONDS)
    if trouble != "restarted":
        elapsed = (datetime.now(UTC) - since).total_seconds()
        assert world.writes(since) == ()
        assert await world.metric('everstep_kube_silent_seconds{plural="pods"}') >= elapsed - 0.5
    await end(world.cluster)
    ended = datetime.now(UTC)

    async def isolated() -> bool:
        return world.written(since)["force_delete_pod"] == 1

    await eventually(isolated, within_seconds=RECOVERY_SECONDS)
    assert world.cluster.node(node)["spec"]["unschedulable"] is True
    world.cluster.faults.power_on(node)
    await eventually(lambda: world.written(since)["release"] == 1, within_seconds=RECOVERY_SECONDS)
    await eventually(lambda: all_run(world), within_seconds=RECOVERY_SECONDS)
    written = world.written(since)
    assert written == Counter({"annotate": 1, **dict.fromkeys(ONCE, 1)})
    targets = {write.target for write in world.writes(since)}
    assert targets == {node, LOST, OTHER_JOB.name}
    assert {name for name, pod in world.pods().items() if uid(pod) != uid(before[name])} == {LOST}

    async def heard_again() -> bool:
        silent = await world.metric('everstep_kube_silent_seconds{plural="pods"}')
        return silent < (datetime.now(UTC) - ended).total_seconds()

    await eventually(heard_again, within_seconds=RECOVERY_SECONDS)


@pytest.mark.slow
@pytest.mark.timeout(180)
async def test_a_long_outage_is_told_as_staleness_and_ends_with_it(world: World) -> None:
    since = datetime.now(UTC)
    await begin(world.cluster, "down")
    await eventually(lambda: is_stale(world), within_seconds=STALE_SECONDS)
    await end(world.cluster)

    async def fresh() -> bool:
        return not await is_stale(world)

    await eventually(fresh, within_seconds=RECOVERY_SECONDS)
    assert world.writes(since) == ()
    assert world.gang.steps_with(3)


async def is_stale(world: World) -> bool:
    return await world.metric('everstep_node_watcher_cluster_stale{plural="pods"}') == 1


def uid(pod: Object) -> str:
    return str(pod["metadata"]["uid"])
