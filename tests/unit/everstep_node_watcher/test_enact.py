"""Publishing through outages: what still stands is told late, what was only fresh is not."""

import asyncio
from datetime import UTC, datetime

from everstep_bus.background import background
from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_contract.base import Event
from everstep_contract.envelope import decode
from everstep_contract.facts.member import MemberRecovered, MemberSuspected
from everstep_contract.facts.node import NodeObserved
from everstep_contract.layout import EVENTS
from everstep_node_watcher.enact import Outbox
from support.jobs import JOB, NOW, member
from support.virtual_time import VirtualClock, in_virtual_time

FRESH_SECONDS = 3.0


def suspected(observation: int) -> MemberSuspected:
    return MemberSuspected(
        at=NOW, job=JOB, member=member(1), reason="connection_closed", witness="w",
        observation=observation, silence_seconds=0,
    )  # fmt: skip


def recovered(observation: int) -> MemberRecovered:
    return MemberRecovered(at=NOW, job=JOB, member=member(1), witness="w", observation=observation)


def observed(version: str) -> NodeObserved:
    return NodeObserved(at=NOW, node="n", ready="True", resource_version=version)


class Scene:
    """An outbox on a bus, and what was published on it."""

    def __init__(self, capacity: int = 100) -> None:
        self.broker = MemoryBroker(CALM, now=lambda: datetime.now(UTC))
        bus = MemoryBus(self.broker, "everstep.node_watcher.1")
        self.outbox = Outbox(bus, VirtualClock(), fresh_seconds=FRESH_SECONDS, capacity=capacity)

    def told(self) -> list[str]:
        stored = self.broker.stream(EVENTS).after(0)
        facts = [decode(dict(one.headers), one.payload) for one in stored]
        return [fact.dedup_id for fact in facts if isinstance(fact, Event)]


@in_virtual_time
async def test_facts_are_published_in_order() -> None:
    scene = Scene()
    facts = (suspected(1), recovered(1), suspected(2))
    async with background(scene.outbox.publish()):
        scene.outbox.put(facts)
        await asyncio.sleep(1)
    assert scene.told() == [fact.dedup_id for fact in facts]


@in_virtual_time
async def test_r15_what_still_stands_is_told_however_late() -> None:
    scene = Scene()
    facts = (observed("1"), recovered(1))
    async with background(scene.outbox.publish()):
        scene.broker.stop()
        scene.outbox.put(facts)
        await asyncio.sleep(60)
        scene.broker.start()
        await asyncio.sleep(30)
    assert scene.told() == [fact.dedup_id for fact in facts]


@in_virtual_time
async def test_a_suspicion_is_not_flushed_late_as_if_it_were_fresh() -> None:
    scene = Scene()
    async with background(scene.outbox.publish()):
        scene.broker.stop()
        scene.outbox.put((suspected(1),))
        await asyncio.sleep(60)
        scene.broker.start()
        await asyncio.sleep(30)
        scene.outbox.put((suspected(2),))
        await asyncio.sleep(1)
    assert scene.told() == [suspected(2).dedup_id]


@in_virtual_time
async def test_an_outage_longer_than_the_queue_makes_nobody_wait() -> None:
    scene = Scene(capacity=3)
    for index in range(5):
        scene.outbox.put((observed(str(index)),))
    async with background(scene.outbox.publish()):
        await asyncio.sleep(60)
    assert len(scene.told()) == 3
