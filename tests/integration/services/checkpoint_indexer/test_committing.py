"""The indexer on a bus and a folder: which saves become checkpoints, once, and which never."""

import asyncio
import os
from pathlib import Path

from everstep_bus.interface import Bus
from everstep_checkpoint.errors import StorageFullError
from everstep_checkpoint.storage import MANIFEST, Storage
from everstep_checkpoint_indexer.decide import manifest_of
from everstep_checkpoint_indexer.gathering import attempt_of
from everstep_checkpoint_indexer.model import Complete
from everstep_contract.layout import CHECKPOINTS, JOBS
from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart
from support.bus_worlds import BusWorld, dead_letters
from support.checkpoints import shard
from support.indexing import (
    committed,
    indexed,
    indexer,
    is_latest,
    latest,
    verified,
    written,
)
from support.jobs import JOB, member, record
from support.places import folder_of
from support.polling import eventually


async def roll_back(world: BusWorld, start_step: int) -> None:
    """Generation 2 begins at this step."""
    starts = ((1, 0), (2, start_step))
    history = tuple(GenerationStart(generation=g, start_step=s) for g, s in starts)
    rolled_back = record(2, (member(0), member(1)), history=history, start_step=start_step)
    adjudicator = await world.service("adjudicator")
    await adjudicator.kv(JOBS).put(JOB.token, rolled_back, expected=0)


async def test_a_checkpoint_is_committed_with_its_last_shard_and_answered(
    world: BusWorld, bus: Bus, agent: Bus, person: Bus, storage: Storage
) -> None:
    async with indexer(bus, storage):
        for index in (0, 1):
            await agent.publish(written(storage, index, shards=2))
            await agent.publish(written(storage, index, shards=2, kind="rank"))
        await eventually(lambda: is_latest(person, 100))
        (found,) = await committed(world)
    (manifest,), damaged = storage.manifests()
    assert (found.path, damaged) == (str(folder_of(storage, manifest)), [])
    assert [(one.kind, one.shard) for one in manifest.shards] == [
        ("state", 0),
        ("state", 1),
        ("rank", 0),
        ("rank", 1),
    ]
    storage.verify(manifest)


async def test_a_rank_that_died_with_its_node_is_not_waited_for_for_ever(
    bus: Bus, agent: Bus, person: Bus, storage: Storage
) -> None:
    async with indexer(bus, storage):
        await agent.publish(written(storage, 1, shards=3, kind="rank"))
        await agent.publish(written(storage))
        await eventually(lambda: is_latest(person, 100))
    (manifest,), _ = storage.manifests()
    assert manifest.world_size == 3
    assert [one.shard for one in manifest.of_kind("rank")] == [1]


async def test_shards_gathered_before_a_crash_are_not_lost_and_nothing_is_told_twice(
    world: BusWorld, agent: Bus, person: Bus, storage: Storage
) -> None:
    first, second = [await world.service("checkpoint_indexer", life) for life in "ab"]
    for index in (0, 1):
        await agent.publish(written(storage, index, shards=2))
    async with indexer(first, storage):
        await agent.publish(written(storage, 0, shards=2, step=200))
        await eventually(lambda: is_latest(person, 100))
    await agent.publish(written(storage, 1, shards=2, step=200))
    async with indexer(second, storage, instance="b"):
        await eventually(lambda: is_latest(person, 200))
    assert [one.step for one in await committed(world)] == [100, 200]


async def test_a_commit_that_a_crash_kept_from_being_told_is_told_by_the_next_life(
    world: BusWorld, bus: Bus, storage: Storage
) -> None:
    fact = written(storage)
    storage.commit(manifest_of(Complete(attempt_of(fact), 1, (fact,)), None))
    async with indexer(bus, storage):
        await eventually(lambda: committed(world))
    assert [one.checkpoint for one in await committed(world)] == [fact.checkpoint]


async def test_r26_ec23_a_void_save_is_not_committed_and_the_breakpoint_save_is(
    world: BusWorld, bus: Bus, agent: Bus, person: Bus, storage: Storage
) -> None:
    await roll_back(world, 100)
    async with indexer(bus, storage):
        for step in (150, 100):
            await agent.publish(written(storage, step=step))
        await eventually(lambda: is_latest(person, 100))
    assert [one.step for one in await committed(world)] == [100]
    assert [one.step for one in storage.manifests()[0]] == [100]


class _Interrupted(Storage):
    """Storage in the midst of whose commits the world goes on."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.loop = asyncio.get_running_loop()
        self.world: BusWorld | None = None

    def commit(self, manifest: Manifest) -> None:
        if self.world is not None and manifest.step == 150:
            asyncio.run_coroutine_threadsafe(roll_back(self.world, 100), self.loop).result(20)
        super().commit(manifest)


async def test_r26_ec23_a_zombies_save_whose_successor_becomes_known_in_mid_commit_never_counts(
    world: BusWorld, bus: Bus, agent: Bus, person: Bus, tmp_path: Path
) -> None:
    storage = _Interrupted(tmp_path)
    storage.world = world
    async with indexer(bus, storage):
        await agent.publish(written(storage, step=150))
        await agent.publish(written(storage, step=100))
        await eventually(lambda: is_latest(person, 100))
    assert [one.step for one in await committed(world)] == [100]
    assert [one.step for one in storage.manifests()[0]] == [100]


async def test_a_shard_that_is_none_of_its_checkpoint_lands_in_dead_with_the_reason(
    world: BusWorld, bus: Bus, agent: Bus, storage: Storage
) -> None:
    async with indexer(bus, storage):
        await agent.publish(shard(7))
        await eventually(lambda: dead_letters(world))
    (letter,) = await dead_letters(world)
    assert "shard 7 of 2" in letter.reason


async def test_a_lost_index_is_rebuilt_from_the_manifests_with_marks_and_pins(
    world: BusWorld, agent: Bus, person: Bus, storage: Storage
) -> None:
    first, second = [await world.service("checkpoint_indexer", life) for life in "ab"]
    async with indexer(first, storage):
        await agent.publish(written(storage))
        await eventually(lambda: verified(person))
    storage.mark(storage.manifests()[0][0], pinned=True)
    before = await indexed(person)
    entries = first.kv(CHECKPOINTS)
    for entry in await entries.entries():
        await entries.delete(entry.key, expected=entry.revision)
    async with indexer(second, storage, instance="b"):
        await eventually(lambda: is_latest(person, 100))
    assert await indexed(person) == {100: before[100].model_copy(update={"pinned": True})}
    assert len(await committed(world)) == 1


async def test_what_is_gone_from_storage_leaves_the_index_with_the_next_life(
    world: BusWorld, agent: Bus, person: Bus, storage: Storage
) -> None:
    first, second = [await world.service("checkpoint_indexer", life) for life in "ab"]
    async with indexer(first, storage):
        for step in (100, 200):
            await agent.publish(written(storage, step=step))
        await eventually(lambda: is_latest(person, 200))
    newest = max(storage.manifests()[0], key=lambda one: one.step)
    storage.delete(newest)
    async with indexer(second, storage, instance="b"):
        await eventually(lambda: is_latest(person, 100))
    assert (await indexed(person)).keys() == {100}


async def test_ec14_a_partial_save_is_never_chosen(
    world: BusWorld, bus: Bus, agent: Bus, person: Bus, storage: Storage
) -> None:
    async with indexer(bus, storage):
        cut_short = written(storage, step=300)
        os.truncate(cut_short.path, 9)
        for fact in (shard(0, step=200, shards=1), cut_short, written(storage, step=100)):
            await agent.publish(fact)
        await eventually(lambda: is_latest(person, 100))
    assert [one.step for one in await committed(world)] == [100]


class _Full(Storage):
    """Storage without room for a manifest until some is made."""

    has_room = False

    def commit(self, manifest: Manifest) -> None:
        if manifest.step == 200 and not self.has_room:
            raise StorageFullError(self.where(self.folder(manifest) / MANIFEST))
        super().commit(manifest)


async def test_ec56_a_manifest_without_room_is_tried_again_and_keeps_nobody_elses_commit_waiting(
    bus: Bus, agent: Bus, person: Bus, tmp_path: Path
) -> None:
    storage = _Full(tmp_path)
    async with indexer(bus, storage):
        await agent.publish(written(storage, step=200))
        await agent.publish(written(storage, step=100))
        await eventually(lambda: is_latest(person, 100))
        storage.has_room = True
        await eventually(lambda: is_latest(person, 200))


async def test_a_standby_answers_nothing_and_takes_over_when_the_leader_ends(
    world: BusWorld, agent: Bus, person: Bus, storage: Storage
) -> None:
    first, second = [await world.service("checkpoint_indexer", life) for life in "ab"]
    async with indexer(first, storage):
        await agent.publish(written(storage))
        await eventually(lambda: is_latest(person, 100))
        standby = indexer(second, storage, instance="b")
        await standby.__aenter__()
    await agent.publish(written(storage, step=200))
    await eventually(lambda: is_latest(person, 200))
    await standby.__aexit__(None, None, None)
    assert await latest(person) is None
