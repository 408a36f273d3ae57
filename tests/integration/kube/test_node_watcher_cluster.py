"""The watcher's cluster half against the simulated API server: facts, and members suspected."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TypeVar

from everstep_bus.background import background
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_contract.base import Event
from everstep_contract.envelope import decode
from everstep_contract.facts.job import JobObserved, PodObserved
from everstep_contract.facts.member import MemberSuspected
from everstep_contract.facts.node import NodeObserved
from everstep_contract.identity import Member
from everstep_contract.layout import EVENTS, JOBS
from everstep_kube.client import KubeClient
from everstep_node_watcher.cluster_service import serve_cluster
from everstep_node_watcher.model import Duty, Policy
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.disruption import evict
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import NODES, POD_GROUPS, PODS
from everstep_simcluster.store import Ref, ref_of
from support.jobs import JOB, member, record
from support.polling import eventually
from support.simcluster import NAMESPACE, job_manifest, running

E = TypeVar("E", bound=Event)
POLICY = Policy(
    witness="watcher",
    node="here",
    reassert_seconds=0.5,
    not_ready_seconds=0.2,
    cluster_fact_seconds=0.2,
)


class Scene:
    """A bus, and what was published on it."""

    def __init__(self) -> None:
        self.broker = MemoryBroker(CALM, now=lambda: datetime.now(UTC))
        self.bus = MemoryBus(self.broker, "everstep.node_watcher.1")

    def told(self, kind: type[E]) -> list[E]:
        """The facts of one kind that were published so far."""
        stored = self.broker.stream(EVENTS).after(0)
        facts = [decode(dict(one.headers), one.payload) for one in stored]
        return [fact for fact in facts if isinstance(fact, kind)]

    def suspected(self, of: Member) -> set[str]:
        """The reasons for which a member was suspected."""
        return {fact.reason for fact in self.told(MemberSuspected) if fact.member == of}


@asynccontextmanager
async def watching(cluster: Cluster, client: KubeClient) -> AsyncIterator[tuple[Scene, Member]]:
    """A job of three pods, and a watcher that has seen them; the member is pod 0's."""
    cluster.create_job(job_manifest())
    await cluster.wait_for(running(cluster, 3))
    pod = cluster.pods(NAMESPACE)[0]
    first = member(0).model_copy(
        update={
            "name": pod["metadata"]["name"],
            "pod_uid": pod["metadata"]["uid"],
            "node": pod["spec"]["nodeName"],
        }
    )
    scene, clock = Scene(), SystemClock()
    await scene.bus.kv(JOBS).put(JOB.token, record(1, (first,)), expected=0)
    readiness = Readiness(clock)
    async with background(serve_cluster(scene.bus, client, Duty(POLICY, clock, readiness))):
        await eventually(lambda: len(scene.told(PodObserved)) >= 3 and not readiness.unproven())
        yield scene, first


async def test_what_the_cluster_holds_is_told(cluster: Cluster, client: KubeClient) -> None:
    async with watching(cluster, client) as (scene, _):
        await eventually(lambda: len(scene.told(NodeObserved)) >= 3 and scene.told(JobObserved))
        assert {fact.node for fact in scene.told(NodeObserved)} == {"node-0", "node-1", "node-2"}
        (observed,) = {
            (fact.gang.min_member, fact.gang.max_member) for fact in scene.told(JobObserved)
        }
        assert observed == (2, 3)


async def test_a_silent_node_is_told_as_unknown_and_its_member_suspected(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        cluster.faults.freeze(first.node)
        await eventually(lambda: scene.suspected(first) == {"node_not_ready"})
        cluster.faults.thaw(first.node)


async def test_a_member_whose_containers_ended_is_suspected(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        cluster.faults.crash(first.node)
        await eventually(lambda: "pod_terminated" in scene.suspected(first))


async def test_a_member_whose_pod_is_deleted_is_suspected(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        cluster.objects.delete(PODS, Ref(NAMESPACE, first.name), DeleteOptions(grace_seconds=0))
        await eventually(lambda: "pod_deleted" in scene.suspected(first))
        assert any(
            fact.deleted and fact.pod_uid == first.pod_uid for fact in scene.told(PodObserved)
        )


async def test_ec54_a_member_that_is_evicted_is_told_as_planned_before_it_is_gone(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        evict(cluster.objects, Ref(NAMESPACE, first.name), DeleteOptions(grace_seconds=1))
        await eventually(lambda: last(scene, first).terminating)
        asked = next(fact for fact in scene.told(PodObserved) if fact.terminating)
        assert (asked.pod_uid, asked.cause, asked.planned) == (first.pod_uid, "evicted", True)
        assert not asked.deleted


async def test_a_container_that_was_killed_is_told_with_its_exit_code(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        cluster.faults.crash(first.node)
        await eventually(lambda: last(scene, first).terminated)
        (container,) = last(scene, first).containers
        assert (container.state, container.exit_code) == ("terminated", 137)


async def test_ec34_a_cordon_by_others_is_told_and_left_and_suspects_nobody(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        cordon = Patch(MERGE_PATCH, {"spec": {"unschedulable": True}})
        cluster.objects.patch(NODES, Ref("", first.node), cordon)
        await eventually(lambda: any(fact.cordoned for fact in scene.told(NodeObserved)))
        assert scene.suspected(first) == set()
        assert cluster.objects.get(NODES, Ref("", first.node))["spec"]["unschedulable"]


async def test_ec64_a_podgroup_that_contradicts_its_pods_changes_nothing(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        await eventually(lambda: scene.told(JobObserved))
        before = len(scene.told(Event))
        lie = {"phase": "Inqueue", "conditions": [{"type": "Unschedulable", "status": "True"}]}
        (group,) = cluster.objects.every(POD_GROUPS, NAMESPACE)
        cluster.objects.patch(POD_GROUPS, ref_of(group), Patch(MERGE_PATCH, {"status": lie}))
        cordon = Patch(MERGE_PATCH, {"spec": {"unschedulable": True}})
        cluster.objects.patch(NODES, Ref("", first.node), cordon)  # told after anything of the lie
        await eventually(lambda: any(fact.cordoned for fact in scene.told(NodeObserved)))
        assert {type(fact) for fact in scene.told(Event)[before:]} == {NodeObserved}
        assert scene.suspected(first) == set()


def last(scene: Scene, of: Member) -> PodObserved:
    """The newest word on a member's pod."""
    return [fact for fact in scene.told(PodObserved) if fact.pod_uid == of.pod_uid][-1]


async def test_another_boot_of_a_node_is_told_and_its_member_suspected(
    cluster: Cluster, client: KubeClient
) -> None:
    async with watching(cluster, client) as (scene, first):
        await cluster.faults.power_off(first.node)
        cluster.faults.power_on(first.node)
        await eventually(lambda: len(boots_of(scene, first.node)) == 2)
        await eventually(lambda: scene.suspected(first) & {"node_rebooted", "pod_terminated"})


def boots_of(scene: Scene, node: str) -> set[str]:
    """Every boot that was told of a node."""
    return {fact.boot_id for fact in scene.told(NodeObserved) if fact.node == node}
