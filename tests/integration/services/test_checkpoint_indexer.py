"""The indexer on a bus and a folder: shards become a checkpoint, once; the latest is answered."""

from pathlib import Path
from typing import Any

import pytest
from everstep_bus.background import background
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_checkpoint.storage import Storage, write_shard
from everstep_checkpoint_indexer.service import serve
from everstep_contract.envelope import decode
from everstep_contract.facts.checkpoint import CheckpointCommitted, ShardPrepared
from everstep_contract.layout import CHECKPOINTS, EVENTS, JOBS
from everstep_contract.queries import LatestCheckpoint, LatestCheckpointReply
from everstep_contract.record import CheckpointRecord, GenerationStart
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from support.bus_worlds import BusWorld, dead_letters
from support.checkpoints import shard
from support.jobs import JOB, member, record
from support.polling import eventually


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


def written(storage: Storage, index: int, *, step: int = 100, **changes: Any) -> ShardPrepared:
    """A shard that lies on storage, as its writer tells of it."""
    told = shard(index, step=step, **changes)
    attempt = storage.attempt(JOB, told.generation, step)
    file = write_shard(attempt, f"{index}-{told.member.incarnation}.safetensors", [b"x" * 10])
    place = {"path": str(attempt / file.file), "xxh3_128": file.xxh3_128}
    return told.model_copy(update=place)


async def committed(world: BusWorld) -> list[CheckpointRecord]:
    facts = [decode(headers, payload) for _, headers, payload in await world.stored(EVENTS.name)]
    return [fact.record for fact in facts if isinstance(fact, CheckpointCommitted)]


async def latest(bus: Bus) -> CheckpointRecord | None:
    try:
        reply = await bus.ask(LatestCheckpoint(job=JOB), LatestCheckpointReply, timeout_seconds=5)
    except TransientBusError:
        return None  # the indexer is only starting
    return reply.record


async def test_a_checkpoint_is_committed_with_its_last_shard_and_answered(
    world: BusWorld, storage: Storage
) -> None:
    bus, agent = await world.service("checkpoint_indexer"), await world.agent(JOB, "worker-0-1")
    person = await world.service("operator")
    async with background(serve(bus, Readiness(SystemClock()), storage)):
        await agent.publish(written(storage, 0))
        await agent.publish(written(storage, 1))
        await eventually(lambda: committed(world))
        await eventually(lambda: latest(person))
        (found,) = await committed(world)
        assert await latest(person) == found
    (manifest,), damaged = storage.manifests()
    assert (found.path, damaged) == (str(storage.folder(manifest)), [])
    storage.verify(manifest)


async def test_shards_gathered_before_a_crash_are_not_lost_and_nothing_is_told_twice(
    world: BusWorld, storage: Storage
) -> None:
    agent = await world.agent(JOB, "worker-0-1")
    person = await world.service("operator")
    first, second = [await world.service("checkpoint_indexer", life) for life in "ab"]
    for index in (0, 1):
        await agent.publish(written(storage, index, step=100))
    async with background(serve(first, Readiness(SystemClock()), storage)):
        await agent.publish(written(storage, 0, step=200))
        await eventually(lambda: latest(person))
    await agent.publish(written(storage, 1, step=200))
    async with background(serve(second, Readiness(SystemClock()), storage)):
        await eventually(lambda: _is_latest(person, 200))
    assert [one.step for one in await committed(world)] == [100, 200]


async def test_r26_ec23_a_void_save_is_not_committed(world: BusWorld, storage: Storage) -> None:
    bus, agent = await world.service("checkpoint_indexer"), await world.agent(JOB, "worker-0-1")
    person = await world.service("operator")
    history = (GenerationStart(generation=1, start_step=0),)
    rolled_back = record(2, (member(0), member(1)), history=history, start_step=100)
    adjudicator = await world.service("adjudicator")
    await adjudicator.kv(JOBS).put(JOB.token, rolled_back, expected=0)
    async with background(serve(bus, Readiness(SystemClock()), storage)):
        for step, generation in ((150, 1), (100, 1)):
            for index in (0, 1):
                await agent.publish(written(storage, index, step=step, generation=generation))
        await eventually(lambda: _is_latest(person, 100))
    assert [one.step for one in await committed(world)] == [100]


async def test_a_shard_that_is_none_of_its_checkpoint_lands_in_dead_with_the_reason(
    world: BusWorld, storage: Storage
) -> None:
    bus, agent = await world.service("checkpoint_indexer"), await world.agent(JOB, "worker-0-1")
    async with background(serve(bus, Readiness(SystemClock()), storage)):
        await agent.publish(shard(7))
        await eventually(lambda: dead_letters(world))
    (letter,) = await dead_letters(world)
    assert "shard 7 of 2" in letter.reason


async def test_a_lost_index_is_rebuilt_from_the_manifests(
    world: BusWorld, storage: Storage
) -> None:
    agent, person = await world.agent(JOB, "worker-0-1"), await world.service("operator")
    first, second = [await world.service("checkpoint_indexer", life) for life in "ab"]
    async with background(serve(first, Readiness(SystemClock()), storage)):
        for index in (0, 1):
            await agent.publish(written(storage, index))
        await eventually(lambda: _is_latest(person, 100))
    entries = first.kv(CHECKPOINTS)
    for entry in await entries.entries():
        await entries.delete(entry.key, expected=entry.revision)
    async with background(serve(second, Readiness(SystemClock()), storage)):
        await eventually(lambda: _is_latest(person, 100))
    assert len(await committed(world)) == 1


async def test_a_shard_that_was_told_of_and_is_not_there_keeps_its_checkpoint_from_being_committed(
    world: BusWorld, storage: Storage
) -> None:
    bus, agent = await world.service("checkpoint_indexer"), await world.agent(JOB, "worker-0-1")
    person = await world.service("operator")
    async with background(serve(bus, Readiness(SystemClock()), storage)):
        await agent.publish(written(storage, 0, step=200))
        await agent.publish(shard(1, step=200))
        for index in (0, 1):
            await agent.publish(written(storage, index, step=100))
        await eventually(lambda: _is_latest(person, 100))
    assert [one.step for one in await committed(world)] == [100]


async def _is_latest(bus: Bus, step: int) -> bool:
    found = await latest(bus)
    return found is not None and found.step == step
