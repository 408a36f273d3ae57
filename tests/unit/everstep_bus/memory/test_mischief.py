"""Each way in which the twin misbehaves, alone and certain, and all of them together."""

import asyncio
from datetime import UTC, datetime

import pytest
from everstep_bus.background import background
from everstep_bus.errors import NoReplyError, TransientBusError
from everstep_bus.interface import Received
from everstep_bus.memory import MemoryBroker, MemoryBus, Mischief
from everstep_contract import subjects
from everstep_contract.clients import agent_client_name, service_client_name
from everstep_contract.dead import DeadLetter
from everstep_contract.envelope import decode
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.layout import DEAD, EVENTS, JOBS, ORDERS, TELEMETRY, Consumer
from everstep_contract.queries import ProbeMember, ProbeReply
from support.messages import JOB, order, probe, probe_reply, record, report, step_advanced
from support.polling import collected
from support.virtual_time import START, VirtualClock, in_virtual_time

STEPS = Consumer("adjudicator", EVENTS, (subjects.event_filter(StepAdvanced),), max_deliveries=5)


def broker(**mischief: float) -> MemoryBroker:
    return MemoryBroker(Mischief(seed=7, **mischief), now=VirtualClock().now)


def service(world: MemoryBroker) -> MemoryBus:
    return MemoryBus(world, service_client_name("adjudicator", "1"))


def agent(world: MemoryBroker, incarnation: str = "worker-0.1") -> MemoryBus:
    return MemoryBus(world, agent_client_name(JOB, incarnation))


async def handled(bus: MemoryBus, seconds: float = 60) -> list[Received]:
    """What a consumer is given within so long."""
    found: list[Received] = []

    async def handle(received: Received) -> None:
        found.append(received)

    async with background(bus.consume(STEPS, handle)):
        await asyncio.sleep(seconds)
    return found


@in_virtual_time
async def test_a_refused_write_is_not_stored() -> None:
    world = broker(refuse=1.0)
    with pytest.raises(TransientBusError):
        await agent(world).publish(step_advanced(1))
    assert world.stream(EVENTS).last_sequence == 0


@in_virtual_time
async def test_a_write_whose_reply_is_lost_is_stored_all_the_same() -> None:
    world = broker(lose_reply=1.0)
    with pytest.raises(TransientBusError):
        await service(world).kv(JOBS).put(JOB.token, record(1), expected=0)
    entry = await service(world).kv(JOBS).get(JOB.token)
    assert entry is not None
    assert entry.value == record(1)


@in_virtual_time
async def test_a_duplicated_fact_is_handled_twice_under_two_sequences() -> None:
    world = broker(duplicate=1.0)
    await agent(world).publish(step_advanced(1))
    found = await handled(service(world))
    assert [one.message for one in found] == [step_advanced(1)] * 2
    assert [one.sequence for one in found] == [1, 2]


@in_virtual_time
async def test_a_lost_acknowledgement_delivers_again_but_never_buries_what_was_handled() -> None:
    world = broker(redeliver=1.0)
    await agent(world).publish(step_advanced(1))
    found = await handled(service(world))
    assert [one.attempt for one in found] == [1, 2, 3, 4, 5]
    assert world.stream(DEAD).last_sequence == 0


@in_virtual_time
async def test_reordering_gives_the_second_before_the_first_and_loses_neither() -> None:
    world = broker(reorder=1.0)
    for step in (1, 2, 3, 4):
        await agent(world).publish(step_advanced(step))
    found = await handled(service(world))
    assert [one.message.step for one in found] == [2, 1, 4, 3]  # type: ignore[attr-defined]


@in_virtual_time
async def test_lost_notices_are_made_good_by_the_next_resync() -> None:
    world = broker(lose_notice=1.0)
    bus, rescaler = service(world), MemoryBus(world, service_client_name("rescaler", "1"))
    async with (
        collected(agent(world).orders(JOB)) as orders,
        collected(bus.kv(JOBS).watch()) as entries,
    ):
        await asyncio.sleep(1)
        await rescaler.post_order(order(1), expected=0)
        await bus.kv(JOBS).put(JOB.token, record(1), expected=0)
        await asyncio.sleep(0.1)
        assert (orders, entries) == ([], [])
        await asyncio.sleep(6)
    assert orders == [order(1)]
    assert [entry.value for entry in entries] == [record(1)]


@in_virtual_time
async def test_lost_reports_are_simply_gone() -> None:
    world = broker(lose_report=1.0)
    await agent(world).report(report(0, 1))
    assert world.stream(TELEMETRY).last_sequence == 0


@in_virtual_time
async def test_a_dropped_connection_comes_back_by_itself() -> None:
    world = broker(drop_connection=1.0)
    publisher = agent(world)
    with pytest.raises(TransientBusError):
        await publisher.publish(step_advanced(1))
    assert not publisher.connected
    await asyncio.sleep(1)
    assert publisher.connected


@in_virtual_time
async def test_a_lost_answer_is_silence() -> None:
    world = broker(lose_reply=1.0)

    async def answer(query: ProbeMember) -> ProbeReply:
        return probe_reply(query)

    async with agent(world).answer(ProbeMember, answer, address=probe().address):
        with pytest.raises(NoReplyError):
            await service(world).ask(probe(), ProbeReply, timeout_seconds=0.25)


@in_virtual_time
async def test_delays_take_time_of_the_loop() -> None:
    world = broker(delay_seconds=10.0)
    before = asyncio.get_running_loop().time()
    await agent(world).publish(step_advanced(1))
    assert 0 < asyncio.get_running_loop().time() - before <= 20


async def _history(seed: int) -> tuple[list[object], float]:
    """Publish and consume through everything at once; what was handled, and how long it took."""
    mischief = Mischief(seed, 0.05, 0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.1, 0.05)
    world = MemoryBroker(mischief, now=VirtualClock().now)
    consumer, publisher = service(world), agent(world)
    steps: list[object] = []
    wanted, complete = set(range(1, 31)), asyncio.Event()

    async def handle(received: Received) -> None:
        assert isinstance(received.message, StepAdvanced)
        steps.append((received.sequence, received.attempt, received.message.step))
        wanted.discard(received.message.step)
        if not wanted:
            complete.set()

    async with background(consumer.consume(STEPS, handle)):
        for step in range(1, 31):
            await _publish_until_acknowledged(publisher, step)
        await complete.wait()
    return steps, asyncio.get_running_loop().time()


async def _publish_until_acknowledged(bus: MemoryBus, step: int) -> None:
    while True:
        try:
            return await bus.publish(step_advanced(step))
        except TransientBusError:
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("seed", range(20))
def test_everything_published_is_handled_whatever_happens_and_the_same_way_again(
    seed: int,
) -> None:
    runs = []

    @in_virtual_time
    async def run() -> None:
        runs.append(await _history(seed))

    run()
    run()
    assert runs[0] == runs[1]


@in_virtual_time
async def test_dead_letters_are_stamped_by_the_clock_that_was_handed_in() -> None:
    world = broker()
    world.inject(subjects.event_subject(step_advanced(1)), b"{}", {"ce-type": StepAdvanced.TYPE})
    assert await handled(service(world)) == []
    [stored] = world.stream(DEAD).after(0)
    letter = decode(stored.headers, stored.payload)
    assert isinstance(letter, DeadLetter)
    assert letter.at == START.astimezone(UTC)
    assert isinstance(letter.at, datetime)


@in_virtual_time
async def test_an_agent_makes_no_stream_and_a_service_does() -> None:
    world = broker()
    world.lose_stream(ORDERS.name)
    with pytest.raises(TransientBusError, match="ORDERS"):
        await agent(world).last_order(JOB)
    assert await service(world).last_order(JOB) is None
    assert await agent(world).last_order(JOB) is None
