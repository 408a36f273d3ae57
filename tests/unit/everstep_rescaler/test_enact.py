"""Posting orders on a bus that loses, refuses and delays: each generation once, and in the end."""

import asyncio
from datetime import UTC, datetime

import pytest
from everstep_bus.background import background
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus, Mischief
from everstep_contract.envelope import decode
from everstep_contract.facts.job import OrderIssued
from everstep_contract.layout import EVENTS, JOBS
from everstep_rescaler.decide import order_of
from everstep_rescaler.enact import OrderDesk
from everstep_rescaler.service import serve
from everstep_runtime.health import Readiness
from support.jobs import JOB, member, record
from support.virtual_time import VirtualClock, in_virtual_time

MEMBERS = tuple(member(index) for index in range(3))
GENERATIONS = 5


def copies(broker: MemoryBroker) -> list[int]:
    facts = [decode(dict(one.headers), one.payload) for one in broker.stream(EVENTS).after(0)]
    return [fact.order.generation for fact in facts if isinstance(fact, OrderIssued)]


@pytest.mark.parametrize("seed", range(10))
def test_r8_lost_answers_and_lost_races_order_each_generation_once(seed: int) -> None:
    mischief = Mischief(seed=seed, delay_seconds=0.05, refuse=0.2, lose_reply=0.2, lose_notice=0.2)
    broker = MemoryBroker(CALM, now=lambda: datetime.now(UTC))

    @in_virtual_time
    async def live() -> None:
        adjudicator = MemoryBus(broker, "everstep.adjudicator.1")
        clock = VirtualClock()
        buses = [MemoryBus(broker, f"everstep.rescaler.{name}") for name in "ab"]
        services = [serve(bus, clock, Readiness(clock)) for bus in buses]
        revision = 0
        async with background(*services):
            for generation in range(1, GENERATIONS + 1):
                broker.dice.mischief = CALM
                ruled = record(generation, MEMBERS)
                revision = await adjudicator.kv(JOBS).put(JOB.token, ruled, expected=revision)
                broker.dice.mischief = mischief
                await asyncio.sleep(30)
            broker.dice.mischief = CALM
            await asyncio.sleep(30)
        last = await adjudicator.last_order(JOB)
        assert last is not None
        assert last.order == order_of(record(GENERATIONS, MEMBERS))
        assert last.sequence == GENERATIONS

    live()
    assert sorted(set(copies(broker))) == list(range(1, GENERATIONS + 1))


@in_virtual_time
async def test_r8_a_stale_record_of_a_former_job_never_orders_over_its_successor() -> None:
    broker = MemoryBroker(CALM, now=lambda: datetime.now(UTC))
    bus = MemoryBus(broker, "everstep.rescaler.1")
    former, anew = record(9, MEMBERS), record(1, MEMBERS, job_uid="another")
    await bus.kv(JOBS).put(JOB.token, anew, expected=0)
    desk = OrderDesk(bus, VirtualClock())
    await desk.issue(anew)
    await desk.issue(former)
    last = await bus.last_order(JOB)
    assert last is not None
    assert last.order.job_uid == "another"


@in_virtual_time
async def test_a_copy_that_was_missed_is_made_by_the_next_resync() -> None:
    broker = MemoryBroker(CALM, now=lambda: datetime.now(UTC))
    bus = MemoryBus(broker, "everstep.rescaler.1")
    ruled = record(4, MEMBERS)
    await bus.post_order(order_of(ruled), expected=0)
    await OrderDesk(bus, VirtualClock()).resync(ruled)
    assert copies(broker) == [4]
