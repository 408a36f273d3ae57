"""The rescaler's fast half: from a job's record to its order, whatever is lost on the way."""

from functools import partial

from everstep_bus.background import background
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.envelope import decode
from everstep_contract.facts.job import OrderIssued
from everstep_contract.layout import EVENTS, JOBS, ORDERS
from everstep_contract.record import JobRecord
from everstep_rescaler.decide import order_of
from everstep_rescaler.service import serve
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from support.bus_worlds import BusWorld
from support.jobs import JOB, member, record
from support.polling import eventually

MEMBERS = tuple(member(index) for index in range(8))


async def put(bus: Bus, value: JobRecord) -> None:
    entry = await bus.kv(JOBS).get(JOB.token)
    await bus.kv(JOBS).put(JOB.token, value, expected=entry.revision if entry else 0)


async def put_in_the_end(bus: Bus, value: JobRecord) -> bool:
    try:
        await put(bus, value)
    except TransientBusError:
        return False
    return True


async def ordered(bus: Bus) -> int:
    last = await bus.last_order(JOB)
    return last.order.generation if last else 0


async def copies(world: BusWorld) -> list[int]:
    facts = [decode(headers, payload) for _, headers, payload in await world.stored(EVENTS.name)]
    return [fact.order.generation for fact in facts if isinstance(fact, OrderIssued)]


async def test_r8_each_new_generation_is_ordered_and_copied_once(world: BusWorld) -> None:
    bus, clock = await world.service("rescaler"), SystemClock()
    adjudicator = await world.service("adjudicator")
    async with background(serve(bus, clock, Readiness(clock))):
        for generation in (1, 2, 3):
            await put(adjudicator, record(generation, MEMBERS))
            await eventually(partial(_is_ordered, adjudicator, generation))
        await put(adjudicator, record(3, MEMBERS, phase="resumed"))
        await eventually(lambda: _is_copied(world, [1, 2, 3]))
    assert len(await world.stored(ORDERS.name)) == 1


async def test_r8_what_was_decided_while_no_rescaler_lived_is_ordered_at_its_start(
    world: BusWorld,
) -> None:
    bus, clock = await world.service("rescaler"), SystemClock()
    await put(await world.service("adjudicator"), record(5, MEMBERS))
    async with background(serve(bus, clock, Readiness(clock))):
        await eventually(lambda: _is_ordered(bus, 5))


async def test_r8_a_lost_orders_stream_is_filled_again_from_the_records(world: BusWorld) -> None:
    bus, clock = await world.service("rescaler"), SystemClock()
    await put(await world.service("adjudicator"), record(5, MEMBERS))
    async with background(serve(bus, clock, Readiness(clock))):
        await eventually(lambda: _is_ordered(bus, 5))
        await world.lose_stream(ORDERS.name)
        await eventually(lambda: _is_ordered(bus, 5))


async def test_r8_an_order_newer_than_the_record_is_left_alone(world: BusWorld) -> None:
    bus, clock = await world.service("rescaler"), SystemClock()
    readiness = Readiness(clock)
    await bus.post_order(order_of(record(9, MEMBERS)), expected=0)
    await put(await world.service("adjudicator"), record(5, MEMBERS))
    async with background(serve(bus, clock, readiness)):
        await eventually(lambda: not readiness.unproven())
        assert await ordered(bus) == 9


async def test_r8_several_rescalers_at_work_order_each_generation_once(world: BusWorld) -> None:
    clock, adjudicator = SystemClock(), await world.service("adjudicator")
    services = [
        serve(await world.service("rescaler", name), clock, Readiness(clock)) for name in "abc"
    ]
    async with background(*services):
        for generation in range(1, 6):
            await put(adjudicator, record(generation, MEMBERS))
            await eventually(partial(_is_ordered, adjudicator, generation))
        await eventually(lambda: _is_copied(world, [1, 2, 3, 4, 5]))
        last = await adjudicator.last_order(JOB)
    assert last is not None
    assert last.sequence == 5


async def test_ec03_orders_flow_again_after_the_server_restarted(world: BusWorld) -> None:
    bus, clock = await world.service("rescaler"), SystemClock()
    adjudicator = await world.service("adjudicator")
    async with background(serve(bus, clock, Readiness(clock))):
        await put(adjudicator, record(1, MEMBERS))
        await eventually(lambda: _is_ordered(adjudicator, 1))
        await world.stop()
        await world.start()
        await eventually(partial(put_in_the_end, adjudicator, record(2, MEMBERS)))
        await eventually(lambda: _is_ordered(adjudicator, 2))


async def _is_ordered(bus: Bus, generation: int) -> bool:
    try:
        return await ordered(bus) == generation
    except TransientBusError:
        return False


async def _is_copied(world: BusWorld, generations: list[int]) -> bool:
    return await copies(world) == generations
