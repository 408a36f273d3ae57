"""Durable consumers."""

import asyncio
import itertools
from dataclasses import replace

import pytest
from everstep_bus.background import background
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus, Received
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberLeft
from everstep_contract.layout import EVENTS, Consumer
from support.bus_worlds import BusWorld, dead_letters
from support.messages import JOB, member, member_left, step_advanced
from support.polling import eventually

FILTERS = (subjects.event_filter(StepAdvanced), subjects.event_filter(MemberLeft))
CONSUMER = Consumer("adjudicator", EVENTS, FILTERS, ack_wait_seconds=1.0, max_deliveries=3)


async def connected(world: BusWorld) -> tuple[Bus, Bus]:
    """A service that consumes, and an agent that publishes."""
    agent = await world.agent(JOB, member(0).incarnation)
    return await world.service(), agent


async def published(agent: Bus, event: Event) -> bool:
    """Whether it is stored now; a publisher tries until it is."""
    try:
        await agent.publish(event)
    except TransientBusError:
        return False
    return True


class Handler:
    """Remembers what it was given, and fails as often as it is told to."""

    def __init__(self, *failures: Exception) -> None:
        self.received: list[Received] = []
        self._failures = list(failures)

    async def __call__(self, received: Received) -> None:
        self.received.append(received)
        if self._failures:
            raise self._failures.pop(0)

    @property
    def messages(self) -> list[object]:
        return [one.message for one in self.received]


async def test_facts_are_handled_in_order_and_once(world: BusWorld) -> None:
    bus, agent = await connected(world)
    handler = Handler()
    for step in range(1, 21):
        await agent.publish(step_advanced(step))
    async with background(bus.consume(CONSUMER, handler)):
        await eventually(lambda: len(handler.received) == 20)
        await agent.publish(member_left(0))
        await eventually(lambda: len(handler.received) == 21)
    assert handler.messages == [*map(step_advanced, range(1, 21)), member_left(0)]
    assert {one.attempt for one in handler.received} == {1}


async def test_a_consumer_proves_that_it_consumes_while_nothing_comes(world: BusWorld) -> None:
    bus, _ = await connected(world)
    proofs: list[None] = []
    async with background(
        bus.consume(CONSUMER, Handler(), proven=lambda: proofs.append(None)),
    ):
        await eventually(lambda: proofs)
        await world.stop()
        await eventually(lambda: not bus.connected)
        proofs.clear()
        await asyncio.sleep(1.5)
        assert not proofs
        await world.start()
        await eventually(lambda: proofs)


async def test_a_consumer_goes_on_where_its_last_life_ended(world: BusWorld) -> None:
    bus, agent = await connected(world)
    first, second = Handler(), Handler()
    await agent.publish(step_advanced(1))
    async with background(bus.consume(CONSUMER, first)):
        await eventually(lambda: len(first.received) == 1)
        await agent.publish(step_advanced(2))
        await eventually(lambda: len(first.received) == 2)
    await agent.publish(step_advanced(3))
    async with background(bus.consume(CONSUMER, second)):
        await eventually(lambda: step_advanced(3) in second.messages)


async def test_from_now_skips_what_was_stored_before_the_first_time(world: BusWorld) -> None:
    bus, agent = await connected(world)
    handler = Handler()
    await agent.publish(step_advanced(1))
    consumer = Consumer("rescaler", EVENTS, FILTERS, from_now=True)
    steps = itertools.count(2)
    async with background(bus.consume(consumer, handler)):

        async def publish_until_heard() -> bool:
            await agent.publish(step_advanced(next(steps)))
            return bool(handler.received)

        await eventually(publish_until_heard)
    assert step_advanced(1) not in handler.messages


async def test_a_message_whose_handler_fails_for_now_is_delivered_again(world: BusWorld) -> None:
    bus, agent = await connected(world)
    handler = Handler(TransientBusError("not now"))
    await agent.publish(step_advanced(1))
    async with background(bus.consume(CONSUMER, handler)):
        await eventually(lambda: len(handler.received) == 2)
    assert [one.attempt for one in handler.received] == [1, 2]
    assert await dead_letters(world) == []


async def test_a_message_that_was_not_finished_is_delivered_again(world: BusWorld) -> None:
    bus, agent = await connected(world)
    handler = Handler()
    begun = asyncio.Event()

    async def never_ends(_: Received) -> None:
        begun.set()
        await asyncio.Event().wait()

    await agent.publish(step_advanced(1))
    async with background(bus.consume(CONSUMER, never_ends)):
        await begun.wait()
    async with background(bus.consume(CONSUMER, handler)):
        await eventually(lambda: len(handler.received) == 1)
    assert handler.received[0].attempt == 2


async def test_a_message_whose_handler_always_fails_for_now_is_dead_at_last(
    world: BusWorld,
) -> None:
    failures = [TransientBusError(f"not now {number}") for number in (1, 2, 3)]
    bus, agent = await connected(world)
    handler = Handler(*failures)
    await agent.publish(step_advanced(1))
    async with background(bus.consume(CONSUMER, handler)):
        await eventually(lambda: dead_letters(world))
        await agent.publish(step_advanced(2))
        await eventually(lambda: len(handler.received) == 4)
    [letter] = await dead_letters(world)
    assert (letter.cause, letter.deliveries) == ("deliveries_exhausted", 3)
    assert letter.reason == "not now 3"
    assert letter.consumer == "adjudicator"


async def test_a_message_that_its_handler_rejects_is_dead_with_the_reason(
    world: BusWorld,
) -> None:
    bus, agent = await connected(world)
    handler = Handler(ValueError("no such node"))
    await agent.publish(step_advanced(1))
    await agent.publish(step_advanced(2))
    async with background(bus.consume(CONSUMER, handler)):
        await eventually(lambda: len(handler.received) == 2)
        await eventually(lambda: dead_letters(world))
    [letter] = await dead_letters(world)
    assert (letter.cause, letter.deliveries) == ("rejected", 1)
    assert letter.reason == "ValueError: no such node"


@pytest.mark.parametrize(
    ("payload", "headers", "reason"),
    [
        (b"\xff{", {"ce-type": StepAdvanced.TYPE}, "does not fit"),
        (b"{}", {"ce-type": StepAdvanced.TYPE}, "does not fit"),
        (b"{}", {"ce-type": "everstep.job.unheard_of.v9"}, "unknown message type"),
        (b"{}", {}, "unknown message type"),
        (
            member_left(1).model_dump_json().encode(),
            {"ce-type": MemberLeft.TYPE},
            "it belongs on",
        ),
    ],
)
async def test_a_message_that_cannot_be_decoded_is_dead_with_the_reason(
    world: BusWorld, payload: bytes, headers: dict[str, str], reason: str
) -> None:
    bus, agent = await connected(world)
    handler = Handler()
    subject = subjects.event_subject(step_advanced(1))
    await world.inject(subject, payload, headers)
    await agent.publish(step_advanced(2))
    async with background(bus.consume(CONSUMER, handler)):
        await eventually(lambda: handler.messages == [step_advanced(2)])
        await eventually(lambda: dead_letters(world))
    [letter] = await dead_letters(world)
    assert (letter.cause, letter.subject) == ("undecodable", subject)
    assert reason in letter.reason


async def test_ec05_a_slow_handler_keeps_its_message_from_a_second_replica(
    world: BusWorld,
) -> None:
    _, agent = await connected(world)
    one, two = await world.service(instance="1"), await world.service(instance="2")
    fast = Handler()
    finished: list[Received] = []

    async def slow(received: Received) -> None:
        await asyncio.sleep(2.5 * CONSUMER.ack_wait_seconds)
        finished.append(received)

    await agent.publish(step_advanced(1))
    async with background(one.consume(CONSUMER, slow)):
        await asyncio.sleep(0.3)
        async with background(two.consume(CONSUMER, fast)):
            await eventually(lambda: finished)
    assert fast.received == []


async def test_a_durable_that_was_lost_goes_on_behind_the_last_acknowledged(
    world: BusWorld,
) -> None:
    bus, agent = await connected(world)
    handler = Handler()
    async with background(bus.consume(CONSUMER, handler)):
        for step in (1, 2, 3):
            await agent.publish(step_advanced(step))
        await eventually(lambda: len(handler.received) == 3)
        await world.lose_durable(EVENTS.name, CONSUMER.name)
        await agent.publish(step_advanced(4))
        await eventually(lambda: len(handler.received) == 4)
    assert handler.messages == [*map(step_advanced, (1, 2, 3, 4))]


async def test_a_durable_follows_its_consumer_to_other_filters(world: BusWorld) -> None:
    bus, agent = await connected(world)
    before, after = Handler(), Handler()
    narrow = replace(CONSUMER, filters=FILTERS[:1])
    async with background(bus.consume(narrow, before)):
        await agent.publish(step_advanced(1))
        await eventually(lambda: len(before.received) == 1)
    async with background(bus.consume(CONSUMER, after)):
        await agent.publish(member_left(1))
        await eventually(lambda: member_left(1) in after.messages)


async def test_a_lost_stream_is_made_anew_and_consumed_again(world: BusWorld) -> None:
    bus, agent = await connected(world)
    handler = Handler()
    async with background(bus.consume(CONSUMER, handler)):
        for step in (1, 2, 3):
            await agent.publish(step_advanced(step))
        await eventually(lambda: len(handler.received) == 3)
        await world.lose_stream(EVENTS.name)
        await eventually(lambda: published(agent, step_advanced(4)))
        await eventually(lambda: step_advanced(4) in handler.messages)


async def test_a_consumer_works_again_after_the_server_came_back(world: BusWorld) -> None:
    bus, agent = await connected(world)
    handler = Handler()
    async with background(bus.consume(CONSUMER, handler)):
        await agent.publish(step_advanced(1))
        await eventually(lambda: len(handler.received) == 1)
        await world.stop()
        await eventually(lambda: not bus.connected)
        await world.start()
        await eventually(lambda: published(agent, step_advanced(2)))
        await eventually(lambda: step_advanced(2) in handler.messages, within_seconds=10)
