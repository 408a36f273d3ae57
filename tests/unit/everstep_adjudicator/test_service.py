"""The service on the bus's twin in simulated time: writes, repeats, takes over, never twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from everstep_adjudicator.policy import Policy
from everstep_adjudicator.service import serve
from everstep_bus.interface import Bus
from everstep_bus.memory import MemoryBroker, MemoryBus, Mischief
from everstep_contract.base import Event
from everstep_contract.clients import agent_client_name, service_client_name
from everstep_contract.envelope import decode
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import VerdictReached
from everstep_contract.layout import EVENTS, INCIDENTS, JOBS
from everstep_contract.queries import (
    CommandAccepted,
    JobStatus,
    JobStatusReply,
    ProbeMember,
    ProbeReply,
    SuspendJob,
)
from everstep_contract.record import JobRecord
from everstep_runtime.health import Readiness
from support.courtroom import JOB, Courtroom, all_of, member
from support.virtual_time import VirtualClock, in_virtual_time


class World:
    """A broker, adjudicators on it, and the agents of one job told by a `Courtroom`."""

    def __init__(self, mischief: Mischief | None = None) -> None:
        self.clock = VirtualClock()
        self.broker = MemoryBroker(mischief or Mischief(), now=self.clock.now)
        self.room = Courtroom(4, min_member=2)
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.agents = MemoryBus(self.broker, agent_client_name(JOB, "all"))
        self.outcome = "refused"

    def start(self, instance: str = "a", wrapped: Bus | None = None) -> None:
        bus = wrapped or MemoryBus(self.broker, service_client_name("adjudicator", instance))
        self.tasks[instance] = asyncio.ensure_future(
            serve(bus, Policy(), self.clock, Readiness(self.clock), instance=instance)
        )

    async def kill(self, instance: str = "a") -> None:
        task = self.tasks.pop(instance)
        task.cancel()
        await asyncio.wait([task])

    async def record(self) -> JobRecord:
        entry = await self.agents.kv(JOBS).get(JOB.token)
        assert entry is not None
        assert entry.value is not None
        return entry.value

    async def reports(self) -> None:
        """Every living agent reports twice."""
        for _ in range(2):
            for incarnation in self.room.agents:
                self.room.monotonic = 1000 + self.clock.monotonic()
                await self.agents.report(self.room.report_of(incarnation))
            await asyncio.sleep(0.5)

    async def form(self, count: int = 4) -> None:
        """The first generation is formed and steps."""
        for who in all_of(count):
            self.room.agents.setdefault(who.incarnation, _agent(self.room, who.incarnation))
        await self.reports()
        await self.obey()

    async def obey(self) -> None:
        record = await self.record()
        for incarnation in record.incarnations:
            if incarnation in self.room.agents:
                agent = self.room.agents[incarnation]
                agent.phase, agent.generation = "stepping", record.generation
                agent.verdict_id, agent.step = record.verdict_id, agent.step + 1
                agent.left_generation = record.generation - 1
        await self.reports()

    async def probes_answered(self) -> None:
        async def answer(query: ProbeMember) -> ProbeReply:
            return ProbeReply.model_validate(
                {
                    "target": query.target,
                    "outcome": self.outcome,
                    "witness": query.witness,
                    "seconds": 0.001,
                }
            )

        async with asyncio.TaskGroup() as group:
            for who in all_of(4):
                group.create_task(self._serve_probe(who.incarnation, answer))

    async def _serve_probe(self, incarnation: str, answer: object) -> None:
        bus = MemoryBus(self.broker, agent_client_name(JOB, incarnation))
        address = f"{JOB.token}.{incarnation}"
        async with bus.answer(ProbeMember, answer, address=address):  # type: ignore[arg-type]
            await asyncio.Event().wait()

    def events(self, kind: type[Event]) -> list[Event]:
        stored = self.broker.stream(EVENTS).messages
        decoded = [decode(message.headers, message.payload) for message in stored]
        return [event for event in decoded if isinstance(event, kind)]


def _agent(room: Courtroom, incarnation: str) -> object:
    from support.courtroom import Agent

    return Agent(member(int(incarnation.split(".")[0].split("-")[1])))


@asynccontextmanager
async def world(mischief: Mischief | None = None) -> AsyncIterator[World]:
    made = World(mischief)
    probes = asyncio.ensure_future(made.probes_answered())
    try:
        yield made
    finally:
        tasks = [probes, *made.tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
