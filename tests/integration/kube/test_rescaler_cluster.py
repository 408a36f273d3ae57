"""The rescaler's cluster half against the simulated API server, through the real client."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import pytest
from everstep_bus.background import background
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_contract.base import Event
from everstep_contract.envelope import decode
from everstep_contract.facts.job import ClusterWritten
from everstep_contract.facts.node import NodeQuarantined, NodeReleased
from everstep_contract.identity import JobKey, Member
from everstep_contract.layout import EVENTS, JOBS, NODES
from everstep_contract.names import encode_name
from everstep_contract.record import Durations, Exclusion, JobRecord
from everstep_contract.verdicts import Evidence, EvidenceKind
from everstep_kube.client import connect
from everstep_kube.writing import ClusterApi
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.cluster_service import serve_cluster
from everstep_runtime.clock import SystemClock
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Drop, Hang, Rule
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import JOBS as VOLCANO_JOBS
from everstep_simcluster.resources import NODES as KUBE_NODES
from everstep_simcluster.store import Ref
from support.jobs import NOW, member, record
from support.polling import eventually
from support.simcluster import NAMESPACE, job_manifest, phases, running, uids

E = TypeVar("E", bound=Event)
JOB = JobKey(namespace=NAMESPACE, name="train")
OURS = "everstep-rescaler"
POLICY = ClusterPolicy(
    act=True,
    look_seconds=0.1,
    silent_seconds=0.3,
    quarantine_silence_seconds=30.0,
    pod_silence_seconds=30.0,
    fence_margin_seconds=0.5,
    well_seconds=0.3,
)
QUICK = replace(POLICY, quarantine_silence_seconds=0.5)
DURATIONS = Durations(
    form_seconds=5.0, construct_seconds=1.0, hold_seconds=60.0, self_fence_seconds=0.5
)


class Scene:
    """A job of three pods on three nodes, a bus, and rescalers at work."""

    def __init__(self, cluster: Cluster, stack: AsyncExitStack) -> None:
        self.cluster = cluster
        self.stack = stack
        self.broker = MemoryBroker(CALM, now=lambda: datetime.now(UTC))
        self.bus = MemoryBus(self.broker, "everstep.adjudicator.1")
        self.members = tuple(self._member(index) for index in range(3))

    def _member(self, index: int) -> Member:
        pod = self.cluster.pods(NAMESPACE)[index]
        found = {
            "job_uid": pod["metadata"]["ownerReferences"][0]["uid"],
            "name": pod["metadata"]["name"],
            "pod_uid": pod["metadata"]["uid"],
            "node": pod["spec"]["nodeName"],
        }
        return member(index).model_copy(update=found)

    async def rule(self, generation: int, lost: Member, *kinds: EvidenceKind) -> None:
        """The adjudicator leaves ``lost`` out, and the others have formed without it."""
        evidence = tuple(
            Evidence(kind=kind, incarnation=lost.incarnation, witness="w") for kind in kinds
        )
        seated = tuple(one for one in self.members if one != lost)
        await self.put(
            record(
                generation,
                seated,
                job=JOB,
                job_uid=lost.job_uid,
                phase="resumed",
                incident=f"incident-{generation}",
                durations=DURATIONS,
                excluded=(Exclusion(member=lost, evidence=evidence, since=NOW),),
            )
        )

    async def put(self, value: JobRecord) -> None:
        entry = await self.bus.kv(JOBS).get(JOB.token)
        await self.bus.kv(JOBS).put(JOB.token, value, expected=entry.revision if entry else 0)

    async def rescaler(self, policy: ClusterPolicy = POLICY, holder: str = "one") -> None:
        """Start a rescaler that works until the end of the test."""
        opened = connect(self.cluster.kubeconfig_path, user_agent=f"{OURS}/1")
        api = ClusterApi(await self.stack.enter_async_context(opened))
        bus = MemoryBus(self.broker, f"everstep.rescaler.{holder}")
        work = serve_cluster(bus, api, policy, SystemClock(), holder=holder)
        await self.stack.enter_async_context(background(work))

    async def looked_again(self, lost: Member, generation: int) -> None:
        """A rescaler has looked at the whole job at least once more."""
        await self.rule(generation, lost, "probe_refused")
        await eventually(lambda: self.generation() == str(generation))
        await self.rule(generation + 1, lost, "probe_refused")
        await eventually(lambda: self.generation() == str(generation + 1))

    def told(self) -> list[tuple[str, str, str]]:
        """Verb, target and outcome of each write that was told of."""
        return [(fact.verb, fact.target, fact.outcome) for fact in self.facts(ClusterWritten)]

    def facts(self, kind: type[E]) -> list[E]:
        """The facts of one kind that were published so far."""
        stored = self.broker.stream(EVENTS).after(0)
        facts = [decode(dict(one.headers), one.payload) for one in stored]
        return [fact for fact in facts if isinstance(fact, kind)]

    def writes(self, method: str, path: str) -> int:
        """Write requests of ours."""
        return len(self.cluster.audit.matching(method=method, path=path, user_agent=OURS))

    def generation(self) -> str:
        """What the Job is annotated with."""
        job = self.cluster.objects.get(VOLCANO_JOBS, Ref(NAMESPACE, "train"))
        return str((job["metadata"].get("annotations") or {}).get("everstep.dev/generation", ""))

    def taints(self, node: str) -> set[str]:
        """Keys of the node's taints."""
        return {taint["key"] for taint in self.cluster.node(node)["spec"].get("taints") or ()}

    def cordoned(self, node: str) -> bool:
        """Whether the node is unschedulable."""
        return bool(self.cluster.node(node)["spec"].get("unschedulable"))


@pytest.fixture
async def scene(cluster: Cluster) -> AsyncIterator[Scene]:
    cluster.create_job(job_manifest())
    await cluster.wait_for(running(cluster, 3))
    async with AsyncExitStack() as stack:
        yield Scene(cluster, stack)


async def test_r5_the_generation_is_written_on_the_job(scene: Scene) -> None:
    await scene.put(
        record(4, scene.members, job=JOB, job_uid=scene.members[0].job_uid, phase="resumed")
    )
    await scene.rescaler()
    await eventually(lambda: scene.generation() == "4")
    await eventually(lambda: ("annotate", "train", "done") in scene.told())
    assert scene.writes("PATCH", "/jobs/train") == 1


async def test_a_failed_pod_is_deleted_by_its_uid_and_volcano_makes_it_anew(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    await scene.rule(4, lost, "probe_refused")
    await scene.rescaler()
    await scene.cluster.wait_for(running(scene.cluster, 3))
    await eventually(lambda: ("delete_pod", lost.name, "done") in scene.told())
    (write,) = scene.cluster.audit.matching(method="DELETE", user_agent=OURS)
    assert write.body["preconditions"] == {"uid": lost.pod_uid}
    assert scene.taints(lost.node) == set()


async def test_r23_a_dead_machines_pod_is_forced_once_fenced_and_comes_back_with_capacity(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    await scene.cluster.faults.power_off(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler()
    await eventually(lambda: ("force_delete_pod", lost.name, "done") in scene.told())
    assert scene.told().index(("delete_pod", lost.name, "done")) < scene.told().index(
        ("force_delete_pod", lost.name, "done")
    )
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Pending")
    scene.cluster.faults.power_on(lost.node)
    await scene.cluster.wait_for(running(scene.cluster, 3))
    assert uids(scene.cluster)[lost.name] != lost.pod_uid


async def test_r23_a_frozen_member_that_thaws_soon_finds_its_node_free(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.freeze(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler()
    await eventually(lambda: scene.generation() == "4")
    scene.cluster.faults.thaw(lost.node)
    await scene.cluster.wait_for(running(scene.cluster, 3))
    assert scene.taints(lost.node) == set()
    assert not scene.cordoned(lost.node)


async def test_r23_a_long_silent_node_is_quarantined_and_released_when_it_is_well_again(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    await scene.cluster.faults.power_off(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler(QUICK)
    await eventually(lambda: scene.facts(NodeQuarantined))
    assert "everstep.dev/quarantined" in scene.taints(lost.node)
    assert scene.cordoned(lost.node)
    scene.cluster.faults.power_on(lost.node)
    await eventually(lambda: scene.facts(NodeReleased))
    assert "everstep.dev/quarantined" not in scene.taints(lost.node)
    assert not scene.cordoned(lost.node)
    assert ("release", lost.node, "done") in scene.told()


async def test_ec34_an_administrators_cordon_and_taint_outlive_our_quarantine(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    theirs = {"key": "maintenance", "value": "disk", "effect": "NoSchedule"}
    spec = {"unschedulable": True, "taints": [theirs]}
    scene.cluster.objects.patch(KUBE_NODES, Ref("", lost.node), Patch(MERGE_PATCH, {"spec": spec}))
    await scene.cluster.faults.power_off(lost.node)
    await scene.rule(4, lost, "connection_stale", "probe_silent")
    await scene.rescaler(QUICK)
    await eventually(lambda: scene.facts(NodeQuarantined))
    scene.cluster.faults.power_on(lost.node)
    await eventually(lambda: scene.facts(NodeReleased))
    assert "everstep.dev/quarantined" not in scene.taints(lost.node)
    assert "maintenance" in scene.taints(lost.node)
    assert scene.cordoned(lost.node)


async def test_ec34_a_manual_uncordon_ends_the_quarantine_for_this_fault(scene: Scene) -> None:
    lost = scene.members[1]
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler()
    await eventually(lambda: scene.facts(NodeQuarantined))
    uncordon = Patch(MERGE_PATCH, {"spec": {"unschedulable": None}})
    scene.cluster.objects.patch(KUBE_NODES, Ref("", lost.node), uncordon)
    await eventually(lambda: scene.facts(NodeReleased))
    await eventually(lambda: "everstep.dev/quarantined" not in scene.taints(lost.node))
    known = await scene.bus.kv(NODES).get(encode_name(lost.node))
    assert known is not None
    assert known.value is not None
    assert (known.value.quarantined_by, known.value.released_from) == (None, "incident-4")
    assert len(scene.facts(NodeQuarantined)) == 1


async def test_in_observe_mode_everything_is_told_and_nothing_written(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler(replace(POLICY, act=False))
    await eventually(lambda: ("delete_pod", lost.name, "refused") in scene.told())
    assert set(scene.told()) == {
        ("annotate", "train", "refused"),
        ("taint", lost.node, "refused"),
        ("cordon", lost.node, "refused"),
        ("delete_pod", lost.name, "refused"),
    }
    assert scene.writes("", "") == 0


async def test_ec05_two_rescalers_and_a_slow_api_server_make_each_write_once(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    slow = Hang(0.7)
    for method in ("PATCH", "DELETE"):
        scene.cluster.api.misbehaviour.add(Rule(slow, method=method, user_agent=OURS))
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler(holder="one")
    await scene.rescaler(holder="two")
    await eventually(lambda: ("delete_pod", lost.name, "done") in scene.told())
    await scene.looked_again(lost, 5)
    assert scene.writes("DELETE", f"/pods/{lost.name}") == 1
    assert scene.writes("PATCH", f"/nodes/{lost.node}") == 1
    assert scene.writes("PATCH", "/jobs/train") == 3  # one a generation


async def test_ec48_a_deletion_whose_answer_was_lost_never_hits_the_successor(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    unheard = Rule(Drop(applied=True), method="DELETE", user_agent=OURS, times=2)
    scene.cluster.api.misbehaviour.add(unheard)
    await scene.rule(4, lost, "probe_refused")
    await scene.rescaler()
    await eventually(lambda: any(verb == "delete_pod" for verb, _, _ in scene.told()))
    await scene.cluster.wait_for(running(scene.cluster, 3))
    successor = uids(scene.cluster)[lost.name]
    await scene.looked_again(lost, 5)
    assert uids(scene.cluster)[lost.name] == successor


async def test_a_rescaler_that_takes_over_goes_on_where_the_first_one_stopped(
    scene: Scene,
) -> None:
    lost = scene.members[1]
    async with AsyncExitStack() as first:
        scene.stack, kept = first, scene.stack
        await scene.rescaler(holder="one")
        await scene.rule(4, lost, "hardware_fault")
        await eventually(lambda: scene.facts(NodeQuarantined))
        scene.stack = kept
    await scene.rescaler(holder="two")
    await scene.rule(5, scene.members[1], "hardware_fault")
    await eventually(lambda: scene.generation() == "5")
    assert scene.writes("PATCH", f"/nodes/{lost.node}") == 1
