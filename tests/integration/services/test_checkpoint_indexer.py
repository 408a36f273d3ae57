"""The indexer on a bus: shards become a checkpoint, once, and the latest is answered."""

from everstep_bus.background import background
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_checkpoint_indexer.service import serve
from everstep_contract.envelope import decode
from everstep_contract.facts.checkpoint import CheckpointCommitted
from everstep_contract.layout import EVENTS, JOBS
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply
from everstep_contract.record import CheckpointRecord, GenerationStart
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from support.bus_worlds import BusWorld, dead_letters
from support.checkpoints import shard
from support.jobs import JOB, member, record
from support.polling import eventually


async def committed(world: BusWorld) -> list[CheckpointRecord]:
    facts = [decode(headers, payload) for _, headers, payload in await world.stored(EVENTS.name)]
    return [fact.record for fact in facts if isinstance(fact, CheckpointCommitted)]


async def latest(bus: Bus) -> CheckpointRecord | None:
    try:
        reply = await bus.ask(LatestCheckpoint(job=JOB), LatestCheckpointReply, timeout_seconds=5)
    except TransientBusError:
        return None  # the indexer is only starting
    return reply.record


async def test_a_checkpoint_is_committed_with_its_last_shard_and_answered(world: BusWorld) -> None:
    bus, agent = await world.service("checkpoint_indexer"), await world.agent(JOB, "worker-0-1")
    person = await world.service("operator")
    async with background(serve(bus, Readiness(SystemClock()))):
        await agent.publish(shard(0))
        await agent.publish(shard(1))
        await eventually(lambda: committed(world))
        await eventually(lambda: latest(person))
        (found,) = await committed(world)
        assert await latest(person) == found


async def test_shards_gathered_before_a_crash_are_not_lost_and_nothing_is_told_twice(
    world: BusWorld,
) -> None:
    agent = await world.agent(JOB, "worker-0-1")
    person = await world.service("operator")
    first, second = [await world.service("checkpoint_indexer", life) for life in "ab"]
    for index in (0, 1):
        await agent.publish(shard(index, step=100))
    async with background(serve(first, Readiness(SystemClock()))):
        await agent.publish(shard(0, step=200))
        await eventually(lambda: latest(person))
    await agent.publish(shard(1, step=200))
    async with background(serve(second, Readiness(SystemClock()))):
        await eventually(lambda: _is_latest(person, 200))
    assert [one.step for one in await committed(world)] == [100, 200]


async def test_r26_a_void_save_is_not_committed(world: BusWorld) -> None:
    bus, agent = await world.service("checkpoint_indexer"), await world.agent(JOB, "worker-0-1")
    person = await world.service("operator")
    history = (GenerationStart(generation=1, start_step=0),)
    rolled_back = record(2, (member(0), member(1)), history=history, start_step=100)
    adjudicator = await world.service("adjudicator")
    await adjudicator.kv(JOBS).put(JOB.token, rolled_back, expected=0)
    async with background(serve(bus, Readiness(SystemClock()))):
        for step, generation in ((150, 1), (100, 1)):
            for index in (0, 1):
                await agent.publish(shard(index, step=step, generation=generation))
        await eventually(lambda: _is_latest(person, 100))
    assert [one.step for one in await committed(world)] == [100]


async def test_a_shard_that_is_none_of_its_checkpoint_lands_in_dead_with_the_reason(
    world: BusWorld,
) -> None:
    bus, agent = await world.service("checkpoint_indexer"), await world.agent(JOB, "worker-0-1")
    async with background(serve(bus, Readiness(SystemClock()))):
        await agent.publish(shard(7))
        await eventually(lambda: dead_letters(world))
    (letter,) = await dead_letters(world)
    assert "shard 7 of 2" in letter.reason


async def _is_latest(bus: Bus, step: int) -> bool:
    found = await latest(bus)
    return found is not None and found.step == step
