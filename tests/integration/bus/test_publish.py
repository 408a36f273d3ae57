"""Publishing facts."""

import pytest
from everstep_bus.errors import TransientBusError
from everstep_contract.envelope import Cause
from everstep_contract.layout import EVENTS
from support.bus_worlds import BusWorld
from support.messages import JOB, report, step_advanced
from support.polling import collected, eventually


async def test_a_fact_is_stored_on_its_subject_with_its_cause(world: BusWorld) -> None:
    bus = await world.agent(JOB, "worker-0.1")
    await bus.publish(step_advanced(7), cause=Cause("incident-1", "event-1"))
    [(subject, headers, _)] = await world.stored(EVENTS.name)
    assert subject == "everstep.evt.v1.job.team=2Ea.llama=2Eft.job.uid-1.step_advanced"
    assert headers["ce-correlationid"] == "incident-1"
    assert headers["ce-causationid"] == "event-1"
    assert headers["ce-id"] == step_advanced(7).dedup_id


async def test_a_fact_published_twice_is_stored_once(world: BusWorld) -> None:
    bus = await world.agent(JOB, "worker-0.1")
    await bus.publish(step_advanced(7))
    await bus.publish(step_advanced(7))
    await bus.publish(step_advanced(8))
    assert len(await world.stored(EVENTS.name)) == 2


async def test_nothing_published_during_an_outage_appears_later(world: BusWorld) -> None:
    bus = await world.service()
    agent = await world.agent(JOB, "worker-0.1")
    await eventually(lambda: bus.connected and agent.connected)
    await world.stop()
    await eventually(lambda: not bus.connected and not agent.connected)
    with pytest.raises(TransientBusError):
        await agent.publish(step_advanced(7))
    await agent.report(report(0, sequence=1))
    await world.start()
    await eventually(lambda: bus.connected and agent.connected)
    await agent.publish(step_advanced(8))
    async with collected(bus.reports()) as reports:

        async def reported_until_heard() -> bool:
            await agent.report(report(0, sequence=2))
            return bool(reports)

        await eventually(reported_until_heard)
    assert {one.sequence for one in reports} == {2}
    stored = [payload for _, _, payload in await world.stored(EVENTS.name)]
    assert stored == [step_advanced(8).model_dump_json().encode()]


async def test_telemetry_comes_as_the_newest_of_each_member_and_then_as_it_is_sent(
    world: BusWorld,
) -> None:
    bus = await world.service()
    agent = await world.agent(JOB, "worker-0.1")
    for sequence in (1, 2):
        await agent.report(report(0, sequence))
    await agent.report(report(1, 1))
    await eventually(lambda: _stored_reports(world, 2))
    async with collected(bus.reports()) as reports:
        await eventually(lambda: len(reports) == 2)
        await agent.report(report(1, 2))
        await eventually(lambda: len(reports) == 3)
    assert [(one.member.name, one.sequence) for one in reports] == [
        ("worker-0", 2),
        ("worker-1", 1),
        ("worker-1", 2),
    ]


async def _stored_reports(world: BusWorld, count: int) -> bool:
    return len(await world.stored("TELEMETRY")) == count


async def test_facts_of_a_filter_are_read_from_the_first_and_then_as_they_come(
    world: BusWorld,
) -> None:
    bus = await world.service("operator")
    writer = await world.agent(JOB, "worker-0.1")
    await writer.publish(step_advanced(1))
    async with collected(bus.facts(("everstep.evt.v1.job.*.*.job.>",))) as facts:
        await eventually(lambda: len(facts) == 1)
        await writer.publish(step_advanced(2))
        await eventually(lambda: len(facts) == 2)
    assert [fact.message for fact in facts] == [step_advanced(1), step_advanced(2)]
