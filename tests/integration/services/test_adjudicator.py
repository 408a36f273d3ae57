"""The adjudicator over the bus: it decides, publishes, takes over, and obeys operators."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import pytest
from everstep_adjudicator.policy import Policy
from everstep_adjudicator.service import serve
from everstep_bus.background import background
from everstep_bus.errors import QueryRefusedError
from everstep_bus.interface import Bus
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import VerdictReached
from everstep_contract.facts.node import NodeReleased
from everstep_contract.layout import JOBS, NODES
from everstep_contract.names import encode_name
from everstep_contract.queries import (
    CommandAccepted,
    JobStatus,
    JobStatusReply,
    ProbeMember,
    ProbeReply,
    ResumeJob,
    SuspendJob,
)
from everstep_contract.record import JobRecord, NodeRecord
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from support.bus_worlds import BusWorld
from support.courtroom import Courtroom
from support.gang import all_of, member
from support.messages import JOB
from support.polling import collected, eventually

POLICY = Policy(form_settle_seconds=60)
ANSWER_SECONDS = 5.0


class Gang:
    """Four members told by a `Courtroom`; reports go over the bus twice as often as agents'."""

    def __init__(self, agents: dict[str, Bus]) -> None:
        self.agents = agents
        self.room = Courtroom(4, min_member=2)
        self.room.start(*all_of(4))

    async def report(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self.room.monotonic = 1000 + loop.time()
            for incarnation in list(self.room.agents):
                await self.agents[incarnation].report(self.room.report_of(incarnation))
            await asyncio.sleep(0.25)

    def obey(self, record: JobRecord) -> None:
        for incarnation in record.incarnations:
            if incarnation in self.room.agents:
                agent = self.room.agents[incarnation]
                agent.phase = "stepping" if record.state == "run" else "holding"
                agent.generation, agent.verdict_id = record.generation, record.verdict_id
                agent.left_generation, agent.step = record.generation - 1, agent.step + 1


@asynccontextmanager
async def gang(world: BusWorld) -> AsyncIterator[Gang]:
    async def look(query: ProbeMember) -> ProbeReply:
        return ProbeReply(
            target=query.target, outcome="refused", witness=query.witness, seconds=0.001
        )

    names = [who.incarnation for who in all_of(4)]
    agents = {name: await world.agent(JOB, name) for name in names}
    async with AsyncExitStack() as stack:
        for name, bus in agents.items():
            address = f"{JOB.token}.{encode_name(name)}"
            await stack.enter_async_context(bus.answer(ProbeMember, look, address=address))
        made = Gang(agents)
        await stack.enter_async_context(background(made.report()))
        yield made


@asynccontextmanager
async def adjudicator(world: BusWorld, instance: str = "one") -> AsyncIterator[Readiness]:
    readiness = Readiness(SystemClock())
    bus = await world.service("adjudicator", instance)
    async with background(serve(bus, POLICY, SystemClock(), readiness, instance=instance)):
        yield readiness


async def stored(bus: Bus) -> JobRecord | None:
    entry = await bus.kv(JOBS).get(JOB.token)
    return entry.value if entry else None


async def record_at(bus: Bus, generation: int, phase: str = "decided") -> JobRecord:
    async def there() -> bool:
        record = await stored(bus)
        return record is not None and (record.generation, record.phase) == (generation, phase)

    await eventually(there, what=f"no generation {generation} {phase}")
    record = await stored(bus)
    assert record is not None
    return record


async def running(bus: Bus, members: Gang) -> JobRecord:
    members.obey(await record_at(bus, 1))
    return await record_at(bus, 1, "resumed")


async def test_a_loss_is_decided_recorded_and_told_with_its_incident(world: BusWorld) -> None:
    bus = await world.service("operator", "test")
    kinds: tuple[type[Event], ...] = (VerdictReached, IncidentOpened, IncidentEnded)
    filters = tuple(map(subjects.event_filter, kinds))
    async with gang(world) as members, adjudicator(world), collected(bus.facts(filters)) as told:
        await running(bus, members)
        members.room.kill("trainer-3.1")
        suspicion = members.room.suspicion(member(3), "connection_closed")
        watcher = await world.service("node_watcher", "test")
        await watcher.publish(suspicion)
        members.obey(await record_at(bus, 2))
        await record_at(bus, 2, "resumed")
        await eventually(lambda: isinstance(told[-1].message, IncidentEnded))
    verdicts = [r.message.verdict.kind for r in told if isinstance(r.message, VerdictReached)]
    assert verdicts == ["form", "shrink"]
    end = told[-1].message
    assert isinstance(end, IncidentEnded)
    assert (end.incident.outcome, end.incident.verdict) == ("resumed", "shrink")
    assert told[-1].cause.correlation_id == end.incident.id


async def test_r5_a_standby_takes_over_and_claims_the_record(world: BusWorld) -> None:
    bus = await world.service("operator", "test")
    async with gang(world) as members, AsyncExitStack() as first:
        await first.enter_async_context(adjudicator(world, "one"))
        before = await running(bus, members)
        async with adjudicator(world, "two") as standby:
            await first.aclose()

            async def claimed() -> bool:
                record = await stored(bus)
                return record is not None and record.lease_revision > before.lease_revision

            await eventually(claimed)
            await eventually(lambda: not standby.unproven())
            after = await stored(bus)
    assert after is not None
    assert after.verdict_id == before.verdict_id


async def test_r7_operators_suspend_ask_and_resume(world: BusWorld) -> None:
    bus = await world.service("operator", "test")
    async with gang(world) as members, adjudicator(world):
        generation = (await running(bus, members)).generation
        command = SuspendJob(job=JOB, generation=generation, reason="maintenance")
        done = await bus.ask(command, CommandAccepted, timeout_seconds=ANSWER_SECONDS)
        members.obey(await record_at(bus, done.generation, "holding"))
        status = await bus.ask(JobStatus(job=JOB), JobStatusReply, timeout_seconds=ANSWER_SECONDS)
        assert status.record is not None
        assert status.record.state == "hold"
        resume = ResumeJob(job=JOB, generation=done.generation, reason="done")
        again = await bus.ask(resume, CommandAccepted, timeout_seconds=ANSWER_SECONDS)
        assert again.generation == done.generation + 1


async def test_ec22_nobody_on_a_quarantined_node_is_counted_until_it_is_released(
    world: BusWorld,
) -> None:
    bus, rescaler = [await world.service(role, "test") for role in ("operator", "rescaler")]
    now = datetime.now(UTC)
    node = NodeRecord(node="node-3", quarantined_by="an-incident", cause="hardware", at=now)
    revision = await rescaler.kv(NODES).put("node-3", node, expected=0)
    async with gang(world), adjudicator(world) as readiness:
        await eventually(lambda: not readiness.unproven())

        async def waits() -> bool:
            asked = JobStatus(job=JOB)
            reply = await bus.ask(asked, JobStatusReply, timeout_seconds=ANSWER_SECONDS)
            return reply.waiting_for == (
                "1 more members, for a while; trainer-3 to run elsewhere, node-3 is quarantined"
            )

        await eventually(waits)
        released = node.model_copy(update={"quarantined_by": None})
        await rescaler.kv(NODES).put("node-3", released, expected=revision)
        told = NodeReleased(at=now, node="node-3", incident="an-incident", reason="by hand")
        await rescaler.publish(told)
        assert len((await record_at(bus, 1)).seats) == 4


async def test_a_command_that_looks_at_an_older_generation_is_refused(world: BusWorld) -> None:
    bus = await world.service("operator", "test")
    async with gang(world) as members, adjudicator(world):
        await running(bus, members)
        command = SuspendJob(job=JOB, generation=0, reason="too late")
        with pytest.raises(QueryRefusedError, match="the job is at generation 1 by now"):
            await bus.ask(command, CommandAccepted, timeout_seconds=ANSWER_SECONDS)
