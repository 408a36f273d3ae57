"""A job of three pods in the simulated cluster, a bus in memory, and rescalers at work."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import pytest
from everstep_bus.background import background
from everstep_bus.errors import NoReplyError, QueryRefusedError
from everstep_bus.interface import Bus
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_contract.base import Event
from everstep_contract.envelope import decode
from everstep_contract.facts.job import ClusterWritten
from everstep_contract.identity import GangSpec, JobKey, Member
from everstep_contract.layout import EVENTS, JOBS, NODES
from everstep_contract.names import encode_name
from everstep_contract.node_queries import NodeStanding, NodeStatus
from everstep_contract.queries import Query
from everstep_contract.record import Durations, Exclusion, JobRecord, NodeRecord
from everstep_contract.verdicts import Evidence, EvidenceKind
from everstep_kube.client import connect
from everstep_kube.writing import ClusterApi
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.cluster_service import serve_cluster
from everstep_runtime.clock import SystemClock
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.resources import EVENTS as KUBE_EVENTS
from everstep_simcluster.resources import JOBS as VOLCANO_JOBS
from everstep_simcluster.store import Ref
from support.jobs import NOW, member, record
from support.polling import eventually
from support.simcluster import NAMESPACE

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

    async def put(self, value: JobRecord, bus: Bus | None = None) -> None:
        """Write the job's record, on the scene's own bus or another."""
        jobs = (bus or self.bus).kv(JOBS)
        entry = await jobs.get(JOB.token)
        await jobs.put(JOB.token, value, expected=entry.revision if entry else 0)

    async def rescaler(self, policy: ClusterPolicy = POLICY, holder: str = "one") -> None:
        """Start a rescaler that works until the end of the test."""
        opened = connect(self.cluster.kubeconfig_path, user_agent=f"{OURS}/1")
        api = ClusterApi(await self.stack.enter_async_context(opened))
        bus = MemoryBus(self.broker, f"everstep.rescaler.{holder}")
        work = serve_cluster(bus, api, policy, SystemClock(), holder=holder)
        await self.stack.enter_async_context(background(work))

    @asynccontextmanager
    async def other_stack(self) -> AsyncIterator[None]:
        """Rescalers that are started in the context end with it."""
        async with AsyncExitStack() as first:
            self.stack, kept = first, self.stack
            yield
            self.stack = kept

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

    async def seat(
        self, generation: int, *members: Member, min_member: int = 1, bus: Bus | None = None
    ) -> None:
        """The adjudicator rules that the job steps on with these."""
        gang = GangSpec(min_member=min_member, max_member=3, nproc_per_node=1)
        uid, phase = self.members[0].job_uid, "resumed"
        ruled = record(generation, members, job=JOB, job_uid=uid, phase=phase, gang=gang)
        await self.put(ruled, bus)

    async def ask(self, query: Query) -> NodeStanding:
        """What a rescaler answers an operator, as soon as one answers at all."""
        operator = MemoryBus(self.broker, "everstep.operator.test")

        async def answers() -> bool:
            try:
                query = NodeStatus(node="any")
                await operator.ask(query, NodeStanding, timeout_seconds=0.1)
            except NoReplyError:
                return False
            return True

        await eventually(answers)
        return await operator.ask(query, NodeStanding, timeout_seconds=10.0)

    async def refusal(self, query: Query) -> str:
        """Why a rescaler refuses what an operator asks for."""
        with pytest.raises(QueryRefusedError) as refused:
            await self.ask(query)
        return refused.value.reason

    async def node_record(self, node: str) -> NodeRecord:
        """What is remembered of a node."""
        entry = await self.bus.kv(NODES).get(encode_name(node))
        assert entry is not None
        assert entry.value is not None
        return entry.value

    def annotations(self, node: str) -> dict[str, str]:
        """Of a node."""
        return dict(self.cluster.node(node)["metadata"].get("annotations") or {})

    def said(self, namespace: str = NAMESPACE) -> list[tuple[str, str, str]]:
        """Kind, name and message of each Event that we made in a namespace."""
        events = self.cluster.objects.every(KUBE_EVENTS, namespace)
        return [
            (one["involvedObject"]["kind"], one["involvedObject"]["name"], one["message"])
            for one in events
            if one["source"].get("component") == OURS
        ]
