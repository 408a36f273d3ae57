"""Orders: one subject a job, posted on condition, never missed."""

import pytest
from everstep_bus.errors import RevisionMismatchError
from everstep_contract import subjects
from support.bus_worlds import BusWorld, dead_letters
from support.messages import JOB, OTHER_JOB, member, order
from support.polling import collected, eventually


async def test_r8_an_order_is_posted_only_behind_the_expected_one(world: BusWorld) -> None:
    bus = await world.service("rescaler")
    assert await bus.last_order(JOB) is None
    first = await bus.post_order(order(1), expected=0)
    second = await bus.post_order(order(2), expected=first)
    for stale in (0, first):
        with pytest.raises(RevisionMismatchError):
            await bus.post_order(order(3), expected=stale)
    last = await bus.last_order(JOB)
    assert last is not None
    assert (last.order, last.sequence) == (order(2), second)


async def test_r8_the_same_order_can_be_posted_again(world: BusWorld) -> None:
    bus = await world.service("rescaler")
    first = await bus.post_order(order(1), expected=0)
    assert await bus.post_order(order(1), expected=first) > first


async def test_an_agent_hears_the_newest_order_and_then_each_newer_one(world: BusWorld) -> None:
    bus = await world.service("rescaler")
    agent = await world.agent(JOB, member(0).incarnation)
    sequence = await bus.post_order(order(1), expected=0)
    await bus.post_order(order(9, job=OTHER_JOB), expected=0)
    async with collected(agent.orders(JOB)) as orders:
        await eventually(lambda: len(orders) == 1)
        for generation in (2, 3):
            sequence = await bus.post_order(order(generation), expected=sequence)
            await eventually(lambda: orders[-1] == order(generation))  # noqa: B023  # awaited here
    assert orders == [order(1), order(2), order(3)]


async def test_an_order_that_was_refused_is_never_heard(world: BusWorld) -> None:
    bus = await world.service("rescaler")
    agent = await world.agent(JOB, member(0).incarnation)
    async with collected(agent.orders(JOB)) as orders:
        first = await bus.post_order(order(1), expected=0)
        with pytest.raises(RevisionMismatchError):
            await bus.post_order(order(7), expected=0)
        await bus.post_order(order(2), expected=first)
        await eventually(lambda: orders[-1:] == [order(2)])
    assert order(7) not in orders


async def test_r9_another_verdict_of_the_same_generation_is_heard(world: BusWorld) -> None:
    bus = await world.service("rescaler")
    agent = await world.agent(JOB, member(0).incarnation)
    first = await bus.post_order(order(1, "form-a"), expected=0)
    async with collected(agent.orders(JOB)) as orders:
        await eventually(lambda: len(orders) == 1)
        await bus.post_order(order(1, "form-b"), expected=first)
        await eventually(lambda: len(orders) == 2)
    assert [one.verdict_id for one in orders] == ["form-a", "form-b"]


async def test_an_order_whose_notice_is_lost_is_found_by_the_resync(world: BusWorld) -> None:
    bus = await world.service("rescaler")
    agent = await world.agent(JOB, member(0).incarnation)
    first = await bus.post_order(order(1), expected=0)
    async with collected(agent.orders(JOB)) as orders:
        await eventually(lambda: len(orders) == 1)
        await world.lose_followers("ORDERS")
        await bus.post_order(order(2), expected=first)
        await eventually(lambda: len(orders) == 2)


async def test_orders_are_heard_again_after_the_server_came_back(world: BusWorld) -> None:
    bus = await world.service("rescaler")
    agent = await world.agent(JOB, member(0).incarnation)
    first = await bus.post_order(order(1), expected=0)
    async with collected(agent.orders(JOB)) as orders:
        await eventually(lambda: len(orders) == 1)
        await world.stop()
        await eventually(lambda: not bus.connected)
        await world.start()
        await eventually(lambda: bus.connected)
        await bus.post_order(order(2), expected=first)
        await eventually(lambda: len(orders) == 2, within_seconds=10)
    assert orders == [order(1), order(2)]


async def test_an_order_that_cannot_be_decoded_is_dead_and_the_next_is_heard(
    world: BusWorld,
) -> None:
    bus = await world.service("rescaler")
    agent = await world.agent(JOB, member(0).incarnation)
    subject = subjects.order_subject(JOB)
    await world.inject(subject, b"{}", {"ce-type": "everstep.order.v1"})
    async with collected(agent.orders(JOB)) as orders:
        await eventually(lambda: dead_letters(world))
        await bus.post_order(order(2), expected=1)
        await eventually(lambda: len(orders) == 1)
    [letter] = await dead_letters(world)
    assert (letter.cause, letter.consumer, letter.subject) == ("undecodable", "orders", subject)
