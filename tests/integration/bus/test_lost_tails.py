"""Acknowledged writes that are lost with their disk (R5)."""

from everstep_bus.background import background
from everstep_bus.errors import RevisionMismatchError, TransientBusError
from everstep_bus.interface import Bus, Received
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.layout import EVENTS, JOBS, Consumer
from support.bus_worlds import BusWorld
from support.messages import JOB, order, record, step_advanced
from support.polling import collected, eventually

CONSUMER = Consumer("adjudicator", EVENTS, (subjects.event_filter(StepAdvanced),))


async def test_a_consumer_ahead_of_a_stream_that_lost_its_tail_misses_nothing_new(
    world: BusWorld,
) -> None:
    bus, agent = await world.service(), await world.agent(JOB, "worker-0.1")
    handled: list[object] = []

    async def handle(received: Received) -> None:
        handled.append(received.message)

    async with background(bus.consume(CONSUMER, handle)):
        await agent.publish(step_advanced(1))
        await eventually(lambda: len(handled) == 1)
        await world.remember()
        for step in (2, 3, 4):
            await eventually(lambda: published(agent, step_advanced(step)))  # noqa: B023  # awaited
        await eventually(lambda: len(handled) == 4)
        await world.lose_since(EVENTS.name)
        await eventually(lambda: published(agent, step_advanced(5)))
        await eventually(lambda: step_advanced(5) in handled)


async def test_what_was_published_after_the_loss_is_handled_though_its_sequences_were_used(
    world: BusWorld,
) -> None:
    """The consumer is away meanwhile, and remembers sequences that mean other messages now."""
    bus, agent = await world.service(), await world.agent(JOB, "worker-0.1")
    handled: list[object] = []

    async def handle(received: Received) -> None:
        handled.append(received.message)

    await agent.publish(step_advanced(1))
    await world.remember()
    for step in (2, 3, 4, 5):
        await eventually(lambda: published(agent, step_advanced(step)))  # noqa: B023  # awaited
    async with background(bus.consume(CONSUMER, handle)):
        await eventually(lambda: len(handled) == 5)
    await world.lose_since(EVENTS.name)
    for step in (6, 7):
        await eventually(lambda: published(agent, step_advanced(step)))  # noqa: B023  # awaited
    handled.clear()
    async with background(bus.consume(CONSUMER, handle)):
        await eventually(lambda: {step_advanced(6), step_advanced(7)} <= set(handled))


async def test_a_watch_yields_what_its_bucket_holds_after_losing_its_tail(
    world: BusWorld,
) -> None:
    kv = (await world.service()).kv(JOBS)
    await kv.put(JOB.token, record(1), expected=0)
    await world.remember()
    await eventually(lambda: put(kv, record(2), expected=1))
    async with collected(kv.watch()) as entries:
        await eventually(lambda: [entry.value for entry in entries] == [record(2)])
        await world.lose_since("KV_jobs")
        await eventually(lambda: entries[-1].value == record(1))
        await put(kv, record(3), expected=1)
        await eventually(lambda: entries[-1].value == record(3))
    assert [entry.revision for entry in entries] == [2, 1, 2]


async def test_an_order_can_be_posted_behind_what_is_left_after_a_lost_tail(
    world: BusWorld,
) -> None:
    bus = await world.service("rescaler")
    agent = await world.agent(JOB, "worker-0.1")
    first = await bus.post_order(order(1), expected=0)
    await world.remember()
    await eventually(lambda: posted(bus, 2, expected=first))
    await world.lose_since("ORDERS")
    async with collected(agent.orders(JOB)) as orders:
        await eventually(lambda: orders == [order(1)])
        await eventually(lambda: posted(bus, 3, expected=first))
        await eventually(lambda: orders == [order(1), order(3)])


async def published(agent: Bus, event: Event) -> bool:
    """Whether it is stored now."""
    try:
        await agent.publish(event)
    except TransientBusError:
        return False
    return True


async def put(kv: object, value: object, *, expected: int) -> bool:
    """Whether it is written now."""
    try:
        await kv.put(JOB.token, value, expected=expected)  # type: ignore[attr-defined]
    except RevisionMismatchError:
        entry = await kv.get(JOB.token)  # type: ignore[attr-defined]
        return bool(entry.value == value)
    except TransientBusError:
        return False
    return True


async def posted(bus: Bus, generation: int, *, expected: int) -> bool:
    """Whether it is the last order now."""
    try:
        await bus.post_order(order(generation), expected=expected)
    except RevisionMismatchError:
        last = await bus.last_order(JOB)
        return last is not None and last.order.generation == generation
    except TransientBusError:
        return False
    return True
