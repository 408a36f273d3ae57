"""EC-22: a quarantined machine that comes back under another name, or as a node made anew."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial

from everstep_bus.background import background
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_contract.facts.node import NodeObserved
from everstep_contract.layout import NODES
from everstep_contract.node_queries import NodeStanding, QuarantineNode
from everstep_contract.record import NodeRecord
from everstep_kube.client import KubeClient, connect
from everstep_kube.node_words import QUARANTINE_TAINT
from everstep_kube.writing import ClusterApi
from everstep_node_watcher import cluster_service as watching
from everstep_node_watcher.model import Duty, Policy
from everstep_rescaler.cluster_nodes import NodeDesk
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.cluster_service import serve_cluster
from everstep_rescaler.house import House
from everstep_rescaler.returning import ReturnDesk
from everstep_rescaler.telling import Teller
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.resources import NODES as KUBE_NODES
from everstep_simcluster.store import Ref
from support.jobs import NOW
from support.polling import eventually

BOARD = "4c4c4544-0051-3510-8052-b6c04f423333"
POLICY = ClusterPolicy(act=True, look_seconds=0.1)
WATCHING = Policy(witness="watcher", node="here", reassert_seconds=0.5)


class Scene:
    """A cluster that machines join and leave, watched, with a rescaler at work."""

    def __init__(self, cluster: Cluster, bus: MemoryBus) -> None:
        self.cluster = cluster
        self.bus = bus

    def join(self, name: str, board: str = BOARD) -> None:
        """A machine registers; nobody here plays its kubelet."""
        status = {"nodeInfo": {"systemUUID": board.upper(), "bootID": "b"}}
        self.cluster.objects.create(KUBE_NODES, "", {"metadata": {"name": name}, "status": status})

    def leave(self, name: str) -> None:
        self.cluster.objects.delete(KUBE_NODES, Ref("", name), DeleteOptions())

    def is_tainted(self, name: str) -> bool:
        taints = self.cluster.objects.get(KUBE_NODES, Ref("", name))["spec"].get("taints") or ()
        return any(taint["key"] == QUARANTINE_TAINT for taint in taints)

    async def quarantine(self, name: str) -> None:
        command = QuarantineNode(node=name, reason="row remap failed", by="me")
        await self.bus.ask(command, NodeStanding, timeout_seconds=5)

    async def record(self, name: str) -> NodeRecord | None:
        entry = await self.bus.kv(NODES).get(name)
        return entry.value if entry else None

    async def in_force(self, name: str, *, deleted: bool = False) -> bool:
        record = await self.record(name)
        return record is not None and bool(record.quarantined_by) and record.deleted is deleted


@asynccontextmanager
async def scene(cluster: Cluster, client: KubeClient) -> AsyncIterator[Scene]:
    broker, clock = MemoryBroker(CALM, now=lambda: datetime.now(UTC)), SystemClock()
    readiness = Readiness(clock)
    watcher = MemoryBus(broker, "everstep.node_watcher.1")
    async with connect(cluster.kubeconfig_path, user_agent="everstep-rescaler/1") as writing:
        api, bus = ClusterApi(writing), MemoryBus(broker, "everstep.rescaler.1")
        async with background(
            watching.serve_cluster(watcher, client, Duty(WATCHING, clock, readiness)),
            serve_cluster(bus, api, POLICY, clock, holder="one"),
        ):
            await eventually(lambda: not readiness.unproven())
            yield Scene(cluster, MemoryBus(broker, "everstep.operator.1"))


async def test_ec22_a_machine_that_returns_under_another_name_is_quarantined_again(
    cluster: Cluster, client: KubeClient
) -> None:
    async with scene(cluster, client) as here:
        here.join("gpu-2")
        await here.quarantine("gpu-2")
        here.leave("gpu-2")
        await eventually(partial(here.in_force, "gpu-2", deleted=True))
        here.join("gpu-3", "4c4c4544-0051-3510-8052-b6c04f424444")
        here.join("gpu-9")
        await eventually(lambda: here.is_tainted("gpu-9"))
        assert not here.is_tainted("gpu-3")
        await eventually(partial(here.in_force, "gpu-9"))
        record = await here.record("gpu-9")
        assert record is not None
        assert record.reason == "the machine of gpu-2 under another name; row remap failed"

        async def forgotten() -> bool:
            return not await here.in_force("gpu-2", deleted=True)

        await eventually(forgotten)


async def test_ec22_a_node_that_is_made_anew_on_the_same_machine_stays_quarantined(
    cluster: Cluster, client: KubeClient
) -> None:
    async with scene(cluster, client) as here:
        here.join("gpu-2")
        await here.quarantine("gpu-2")
        here.leave("gpu-2")
        here.join("gpu-2")
        assert not here.is_tainted("gpu-2")
        await eventually(lambda: here.is_tainted("gpu-2"))


async def test_another_machine_under_a_quarantined_name_is_free(
    cluster: Cluster, client: KubeClient
) -> None:
    async with scene(cluster, client) as here:
        here.join("gpu-2")
        await here.quarantine("gpu-2")
        here.leave("gpu-2")
        here.join("gpu-2", "4c4c4544-0051-3510-8052-b6c04f424444")

        async def released() -> bool:
            record = await here.record("gpu-2")
            return record is not None and record.quarantined_by is None

        await eventually(released)
        assert not here.is_tainted("gpu-2")


async def test_two_nodes_that_are_there_at_once_are_two_machines_whatever_their_ids(
    cluster: Cluster, client: KubeClient
) -> None:
    async with scene(cluster, client) as here:
        here.join("gpu-2")
        here.join("gpu-9")
        await here.quarantine("gpu-2")
        record = await here.record("gpu-2")
        assert record is not None
        api, clock = ClusterApi(client), SystemClock()
        house = House(here.bus, api, clock, POLICY, Teller(api, clock, act=True))
        desk = ReturnDesk(house, NodeDesk(house))
        desk.consider(
            NodeObserved(
                at=NOW, node="gpu-9", ready="True", resource_version="1", machines=record.machines
            ),
            record.machines,
        )
        await desk.look([record])
        assert not here.is_tainted("gpu-9")
