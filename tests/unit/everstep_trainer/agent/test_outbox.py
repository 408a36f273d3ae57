"""Facts on their way to the bus: repeated while they matter, dropped when they do not."""

import asyncio

from everstep_bus.background import background
from everstep_bus.memory import MemoryBroker, MemoryBus
from everstep_contract.base import Event
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberFormed, MemberJoined, MemberLeft
from everstep_contract.facts.worker import WorkerExited
from everstep_trainer.agent.inputs import ShardWritten, SnapshotsSeen
from everstep_trainer.agent.outbox import MAX_KEPT, Outbox, matters
from everstep_trainer.agent.snapshots import Breakpoint, Snapshot
from support.agent_core import Core, make_order
from support.messages import member_left
from support.polling import collected, eventually

SNAPSHOT = Snapshot(0, "state", generation=1, step=9, shard=0, shards=1, total_bytes=10)


def test_what_a_newer_order_has_overtaken_is_not_told_late() -> None:
    core = Core().warm().run(make_order(1))
    old = [*core.published(MemberFormed), *core.published(StepAdvanced)]
    assert all(matters(event, core.state) for event in old)
    core.order(make_order(2))
    assert not any(matters(event, core.state) for event in old)


def test_a_step_is_not_told_once_a_later_one_was() -> None:
    core = Core().warm().run(make_order(1))
    core.step_to(9)
    core.pass_seconds(3)
    earlier = core.published(StepAdvanced)[-1]
    core.step_to(20)
    core.pass_seconds(3)
    assert not matters(earlier, core.state)


def test_an_end_is_told_however_late() -> None:
    core = Core().warm().run(make_order(1))
    core.die()
    core.order(make_order(2))
    assert matters(core.published(WorkerExited)[-1], core.state)
    assert matters(member_left(0), core.state)


def test_a_candidate_says_anew_that_it_is_ready_after_each_order() -> None:
    core = Core(index=5).warm()
    ready = core.published(MemberJoined)[-1]
    core.order(make_order(1))
    assert not matters(ready, core.state)


def test_a_durable_shard_is_told_however_late() -> None:
    core = Core(has_storage=True).warm().run(make_order(1))
    core.hear(SnapshotsSeen(Breakpoint(writes_state=True), (SNAPSHOT,)))
    core.hear(ShardWritten(SNAPSHOT, "/checkpoints/state", 10, "0" * 32, 1.0))
    (told,) = core.published(ShardPrepared)
    core.order(make_order(2))
    assert matters(told, core.state)


async def test_a_fact_is_published_once_the_bus_is_back() -> None:
    broker = MemoryBroker()
    mine, other = MemoryBus(broker, "agent"), MemoryBus(broker, "other")
    outbox = Outbox(lambda _: True)
    async with collected(other.facts(("everstep.evt.>",))) as facts, background(outbox.run(mine)):
        broker.connections.sever("agent", noticed_after_seconds=0)
        outbox.put(member_left(0))
        broker.connections.mend("agent")
        await eventually(lambda: facts)
    assert isinstance(facts[0].message, MemberLeft)


async def test_flushing_ends_though_the_bus_is_away() -> None:
    broker = MemoryBroker()
    bus = MemoryBus(broker, "agent")
    outbox = Outbox(lambda _: True)
    async with background(outbox.run(bus)):
        broker.connections.sever("agent", noticed_after_seconds=0)
        outbox.put(member_left(0))
        async with asyncio.timeout(5):
            await outbox.flush(0.05)


async def test_an_outage_keeps_only_the_newest_facts() -> None:
    broker = MemoryBroker()
    mine, other = MemoryBus(broker, "agent"), MemoryBus(broker, "other")
    outbox = Outbox(lambda _: True)
    for index in range(MAX_KEPT + 5):
        outbox.put(member_left(index))
    async with collected(other.facts(("everstep.evt.>",))) as facts, background(outbox.run(mine)):
        await eventually(lambda: len(facts) == MAX_KEPT)
    newest: Event = facts[-1].message  # type: ignore[assignment]  # facts are events
    assert newest.entity_id == f"worker-{MAX_KEPT + 4}.1"
