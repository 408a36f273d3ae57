"""A simulated world: the bus's twin, the real services, members with the agent's real core."""

import asyncio
import functools
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from everstep_adjudicator.policy import Policy
from everstep_adjudicator.service import serve as serve_adjudicator
from everstep_bus.errors import TransientBusError
from everstep_bus.memory import MemoryBroker, MemoryBus, MemoryServerEvents, Mischief
from everstep_bus.memory.connections import Connections
from everstep_contract.clients import ServiceClient, service_client_name
from everstep_contract.envelope import decode
from everstep_contract.facts.job import JobObserved, VerdictReached
from everstep_contract.facts.node import NodeObserved
from everstep_contract.identity import Endpoint, GangSpec, JobKey, Member
from everstep_contract.layout import EVENTS, INCIDENTS, JOBS, bucket_subject
from everstep_contract.queries import CommandAccepted, RescaleJob, ResumeJob, SuspendJob
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_contract.rescaling import JobSize
from everstep_node_watcher.model import Duty
from everstep_node_watcher.model import Policy as WatcherPolicy
from everstep_node_watcher.service import serve as serve_watcher
from everstep_rescaler.service import serve as serve_rescaler
from everstep_runtime.health import Readiness
from sim.crashing import CrashingBus
from sim.ledger import Ledger
from sim.members import SimMember, Surroundings
from sim.network import Network
from sim.observing import (
    LOOK_SECONDS,
    best_living_version,
    incident_of,
    record_of,
    watch_records,
)
from sim.sizes import SimJob, keep_sizes
from sim.workers import Fabric
from support.virtual_time import VirtualClock

JOB: Final = JobKey(namespace="team-a", name="llama.ft")
CANARY: Final = ServiceClient("canary", "watcher-1")
GRACE_SECONDS: Final = 3.0
"""Of a pod that is deleted, before its processes are killed."""


class World:
    """Everything of one history. Members are known by index; each index has lives."""

    def __init__(
        self,
        seed: int,
        *,
        members: int = 8,
        min_member: int = 6,
        nproc: int = 1,
        mischief: Mischief | None = None,
        policy: Policy | None = None,
    ) -> None:
        self.dice = random.Random(seed)
        self.clock = VirtualClock()
        self.policy = policy or Policy()
        self.gang = GangSpec(min_member=min_member, max_member=members, nproc_per_node=nproc)
        self.ledger = Ledger(min_member)
        self.broker = MemoryBroker(mischief or Mischief(seed=seed), now=self.clock.now)
        self.network = Network(self.dice)
        self.members: dict[int, SimMember] = {}
        self.past: list[SimMember] = []
        self.lives: dict[int, int] = {}
        self.dark_nodes: dict[str, bool] = {}
        self.troubled_at: dict[str, float] = {}
        self.services: dict[str, asyncio.Task[None]] = {}
        self.clients: dict[str, str] = {}
        self.starts = 0
        self._looker = self.connect(service_client_name("operator", "looker"))
        self.fabric = Fabric(
            self.ledger,
            self.dice,
            store_answers=self._store_answers,
            best_living_version=functools.partial(best_living_version, self),
        )
        self._surroundings = Surroundings(
            JOB, self.gang, self.network, self.fabric, self.ledger, self.clock, self.connect
        )
        self.job = SimJob(JOB, self.gang, self._fit_pods, self._tell_of_the_job, self.clock)
        self._watching = asyncio.ensure_future(watch_records(self))
        self._canary = self.connect(service_client_name(CANARY.role, CANARY.instance))

    def connect(self, name: str) -> MemoryBus:
        """A connection to the bus."""
        return MemoryBus(self.broker, name)

    def trouble(self, *members: SimMember) -> None:
        """Something befalls these members, or it ends: for a while anything may be said of them."""
        for member in members or (*self.members.values(), *self.past):
            self.troubled_at[member.incarnation] = self.clock.monotonic()

    def say(self, what: str) -> None:
        """One line of the history."""
        self.ledger.say(self.clock.monotonic(), what)

    @property
    def connections(self) -> Connections:
        """The server's connections, to be cut."""
        return self.broker.connections

    # --- services -------------------------------------------------------------------------------

    def start_services(self) -> None:
        """The adjudicator, the rescaler and the watcher."""
        for name in ("adjudicator", "rescaler", "node_watcher"):
            self.start_service(name)

    def start_service(self, name: str, *, die_at: int | None = None, after: bool = False) -> None:
        """Start one service, or a new life of it; it may die at its n-th call to the bus."""
        self.starts += 1
        role = name.partition("-")[0]
        client = service_client_name(role, f"{name}-{self.starts}")  # type: ignore[arg-type]  # a role
        self.clients[name] = client
        bus = self.connect(client)
        crashing = CrashingBus(
            bus, die_at, after=after, die=lambda when: self.kill_service(name, when)
        )
        start: dict[str, Callable[[Any], Awaitable[None]]] = {
            "adjudicator": functools.partial(self._adjudicate, instance=f"{name}-{self.starts}"),
            "rescaler": self._rescale,
            "node_watcher": self._watch_nodes,
        }
        self.services[name] = asyncio.ensure_future(self._run(name, start[role](crashing), bus))

    async def _run(self, name: str, work: Awaitable[None], bus: MemoryBus) -> None:
        try:
            await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # whatever ends a service ends the history
            self.ledger.breach(f"{name} failed: {error!r}")
            raise
        finally:
            bus.close()

    def kill_service(self, name: str, when: str = "") -> None:
        """SIGKILL: it does not get to do anything any more."""
        self.say(f"{name} dies {when}".rstrip())
        task = self.services.pop(name, None)
        if task is not None:
            task.cancel()

    async def _adjudicate(self, bus: Any, instance: str) -> None:
        readiness = Readiness(self.clock)
        await serve_adjudicator(bus, self.policy, self.clock, readiness, instance=instance)

    async def _rescale(self, bus: Any) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(serve_rescaler(bus, self.clock, Readiness(self.clock)))
            group.create_task(keep_sizes(bus, self.job, self.clock))

    async def _watch_nodes(self, bus: Any) -> None:
        events = MemoryServerEvents(
            self.broker, service_client_name("node_watcher", f"system-{self.starts}")
        )
        policy = WatcherPolicy(witness="node_watcher", node="node-w", canaries=frozenset({CANARY}))
        try:
            await serve_watcher(bus, events, Duty(policy, self.clock, Readiness(self.clock)))
        finally:
            events.close()

    # --- members --------------------------------------------------------------------------------

    def start_members(self) -> None:
        """All pods of the job."""
        for index in range(self.gang.max_member):
            self.start_member(index)

    def start_member(self, index: int) -> SimMember:
        """A pod, or its remade successor, on a node of its own."""
        life = self.lives[index] = self.lives.get(index, 0) + 1
        node = f"node-{index}.{life}"
        member = Member(
            job_uid="uid-1",
            name=f"trainer-{index}",
            pod_uid=f"pod-{index}-{life}",
            incarnation=f"trainer-{index}.{life}",
            node=node,
        )
        if index in self.members:
            self.past.append(self.members[index])
        self.members[index] = SimMember(self._surroundings, member, node)
        self.say(f"{member.incarnation} starts")
        return self.members[index]

    def _fit_pods(self, size: JobSize) -> None:
        """Volcano's: the highest indices go, whoever is on them, and missing ones are made."""
        self.say(f"the Job has {size}")
        for index, member in list(self.members.items()):
            if index >= size.replicas and member.alive:
                self.trouble(member)
                member.terminate()
                asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end, index, member)
        for index in range(size.replicas):
            if index not in self.members or not self.members[index].alive:
                self.start_member(index)

    def _end(self, index: int, member: SimMember) -> None:
        """The grace of a pod that is deleted is over; only now its name is free again."""
        member.die(quiet=False)
        if self.wanted(index) and self.members[index] is member:
            self.start_member(index)

    def wanted(self, index: int) -> bool:
        """Whether the Job asks for a pod of this index."""
        return index < self.job.size.replicas

    async def _tell_of_the_job(self, fact: JobObserved) -> None:
        await self._looker.publish(fact)

    def crash(self, index: int) -> None:
        """SIGKILL to agent and workers; the node lives."""
        self.say(f"{self.members[index].incarnation} crashes")
        self.members[index].die(quiet=False)

    def power_off(self, index: int) -> None:
        """The node's link is cut, then its processes end: nothing says goodbye."""
        member = self.members[index]
        self.say(f"{member.incarnation} loses its power")
        self.connections.sever(member.client_name)
        self.network.silence(member.host)
        self.dark_nodes[member.member.node] = True
        member.die(quiet=True)

    def freeze(self, index: int) -> None:
        """SIGSTOP to agent and workers."""
        self.trouble(self.members[index])
        self.say(f"{self.members[index].incarnation} freezes")
        self.members[index].freeze()
        self.connections.sever(self.members[index].client_name)

    def thaw(self, member: SimMember) -> None:
        """SIGCONT."""
        self.trouble(member)
        self.say(f"{member.incarnation} thaws")
        member.thaw()
        self.connections.mend(member.client_name)

    def cut_bus(self, index: int) -> None:
        """The member loses only its way to the bus."""
        self.trouble(self.members[index])
        self.say(f"{self.members[index].incarnation} loses the bus")
        self.connections.sever(self.members[index].client_name)

    def mend_bus(self, member: SimMember) -> None:
        """And finds it again."""
        self.trouble(member)
        self.say(f"{member.incarnation} finds the bus")
        self.connections.mend(member.client_name)

    def isolate(self, index: int) -> None:
        """A partition: neither the bus nor the other members reach it, and it lives."""
        member = self.members[index]
        self.trouble(member)
        self.say(f"{member.incarnation} is cut off")
        self.connections.sever(member.client_name)
        self.network.silence(member.host)

    def cut_network(self, index: int) -> None:
        """Only the training network does not reach it."""
        member = self.members[index]
        self.trouble(member)
        self.say(f"{member.incarnation} loses the training network")
        self.network.silence(member.host)

    def reconnect(self, member: SimMember) -> None:
        """Everything reaches it again, unless its node is dark."""
        if member.alive:
            self.trouble(member)
            self.say(f"{member.incarnation} is reached again")
            self.network.restore(member.host)
            self.connections.mend(member.client_name)

    async def command(self, kind: type[SuspendJob | ResumeJob], generation: int) -> CommandAccepted:
        """An operator's word."""
        query = kind(job=JOB, generation=generation, reason="maintenance")
        return await self._looker.ask(query, CommandAccepted, timeout_seconds=5)

    async def rescale(self, replicas: int, least: int | None = None) -> CommandAccepted:
        """An operator's wish for another size, of the generation that is on record now."""
        record = self.record()
        query = RescaleJob(
            job=JOB,
            generation=record.generation if record else 0,
            replicas=replicas,
            min_available=least,
            reason="others",
        )
        return await self._looker.ask(query, CommandAccepted, timeout_seconds=5)

    async def fence(self, node: str) -> None:
        """The API's word that a node is out of service: proof (R21)."""
        self.say(f"{node} is fenced")
        fact = NodeObserved(
            at=self.clock.now(),
            node=node,
            ready="Unknown",
            out_of_service=True,
            resource_version=f"{self.clock.monotonic():.3f}",
        )
        while True:
            try:
                await self._looker.publish(fact)
            except TransientBusError:
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return

    # --- looking on -----------------------------------------------------------------------------

    def record(self) -> JobRecord | None:
        """The job's record, as it lies on the server's disk."""
        stored = self.broker.bucket(JOBS).last(bucket_subject(JOBS, JOB.token))
        return record_of(stored.payload) if stored else None

    def incidents(self) -> list[IncidentRecord]:
        """All incidents, in the order in which they were opened."""
        stored = self.broker.bucket(INCIDENTS).newest_per_subject()
        found = [incident_of(one.payload) for one in stored]
        return sorted(found, key=lambda incident: (incident.opened_at, incident.id))

    def announced(self) -> set[str]:
        """Verdict ids of all verdicts that were told."""
        facts = (decode(s.headers, s.payload) for s in self.broker.stream(EVENTS).after(0))
        return {fact.verdict_id for fact in facts if isinstance(fact, VerdictReached)}

    async def until(
        self, condition: Callable[[], bool], *, within_seconds: float, what: str
    ) -> None:
        """Let the world go on until the condition holds, checking every promise meanwhile."""
        deadline = self.clock.monotonic() + within_seconds
        while not condition():
            if self.clock.monotonic() > deadline:
                self.ledger.breach(f"not within {within_seconds:g} s: {what}")
            await self.go_on(LOOK_SECONDS)

    async def go_on(self, seconds: float) -> None:
        """Let the world go on, checking every promise."""
        await asyncio.sleep(seconds)
        self.ledger.check()

    async def steps(
        self, *, members: int | None = None, after: int = 0, within_seconds: float = 30
    ) -> None:
        """Until the newest generation has stepped, with so many members, and is on record so.

        ``after``: it must be newer than this one.
        """
        wanted = members if members is not None else self.gang.max_member

        def stepping() -> bool:
            record = self.record()
            return (
                record is not None
                and record.phase == "resumed"
                and len(record.seats) == wanted
                and record.generation > after
                and self.ledger.newest_stepping == record.generation
            )

        await self.until(stepping, within_seconds=within_seconds, what=f"{wanted} members step")

    async def quiet(self, *, within_seconds: float = 30) -> None:
        """Until no incident is open."""

        def closed() -> bool:
            return all(incident.outcome is not None for incident in self.incidents())

        await self.until(closed, within_seconds=within_seconds, what="every incident ends")

    def verdicts(self) -> list[str]:
        """Kinds of all verdicts that became generations, in order."""
        return [record.verdict.kind for record in self.ledger.records]

    async def close(self) -> None:
        """End everything."""
        self.job.close()
        for member in (*self.members.values(), *self.past):
            member.die(quiet=True)
        tasks = [self._watching, *self.services.values()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    def _store_answers(self, host: str, store: Endpoint) -> bool:
        homes = [m for m in (*self.members.values(), *self.past) if m.host == store.host]
        alive = any(member.alive and not member.frozen for member in homes)
        return alive and self.network.reaches(host, store.host)
