"""Fake agents on a real bus, each for a pod of a simulated cluster: they report, obey, and die."""

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime

from everstep_bus.background import background
from everstep_bus.errors import BusError
from everstep_bus.interface import Bus
from everstep_contract.identity import GangSpec, JobKey, Member
from everstep_contract.layout import JOBS
from everstep_contract.names import encode_name
from everstep_contract.queries import ProbeMember, ProbeReply
from everstep_contract.record import JobRecord
from everstep_simcluster.resources import Object
from support.gang import Agent
from support.nats_world import NatsWorld

REPORT_SECONDS = 0.25


class FakeGang:
    """The agents of one job. Whoever is asked about a dead one hears nothing of it."""

    def __init__(self, world: NatsWorld, job: JobKey, gang: GangSpec) -> None:
        self._world = world
        self._job = job
        self._gang = gang
        self._living: dict[str, tuple[Agent, Bus]] = {}
        self._record: JobRecord | None = None

    async def start(self, pods: list[Object], stack: AsyncExitStack) -> None:
        """Let an agent live in each pod until ``stack`` is closed."""
        for pod in pods:
            await self._start_agent(_member(pod), stack)
        operator = await self._world.service("operator", "gang")
        await stack.enter_async_context(background(self._live(operator)))

    async def kill(self, pod: str) -> None:
        """Let the agent in the pod of this name end, without a word."""
        (name,) = (i for i, (agent, _) in self._living.items() if agent.member.name == pod)
        _, bus = self._living.pop(name)
        await self._world.disconnect(bus)

    def steps_with(self, members: int) -> bool:
        """Whether a generation of so many members has completed a step."""
        record = self._record
        return record is not None and (record.phase, len(record.seats)) == ("resumed", members)

    async def _start_agent(self, member: Member, stack: AsyncExitStack) -> None:
        async def look(query: ProbeMember) -> ProbeReply:
            return ProbeReply(
                target=query.target,
                outcome="alive" if query.target in self._living else "silent",
                witness=query.witness,
                seconds=0.001,
            )

        bus = await self._world.agent(self._job, member.incarnation)
        address = f"{self._job.token}.{encode_name(member.incarnation)}"
        await stack.enter_async_context(bus.answer(ProbeMember, look, address=address))
        self._living[member.incarnation] = Agent(member), bus

    async def _live(self, operator: Bus) -> None:
        while True:
            try:
                entry = await operator.kv(JOBS).get(self._job.token)
            except BusError:
                entry = None
            if entry is not None and entry.value is not None:
                self._record = entry.value
            for agent, bus in tuple(self._living.values()):
                self._obey(agent)
                report = agent.report(datetime.now(UTC), self._gang, job=self._job)
                await bus.report(report)
            await asyncio.sleep(REPORT_SECONDS)

    def _obey(self, agent: Agent) -> None:
        record = self._record
        if record is not None and agent.member.incarnation in record.incarnations:
            agent.follow(record, "stepping")
            agent.step += 1


def _member(pod: Object) -> Member:
    metadata = pod["metadata"]
    return Member(
        job_uid=metadata["ownerReferences"][0]["uid"],
        name=metadata["name"],
        pod_uid=metadata["uid"],
        incarnation=f"{metadata['name']}.1",
        node=pod["spec"]["nodeName"],
    )
