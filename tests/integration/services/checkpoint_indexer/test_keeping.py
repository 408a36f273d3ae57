"""What the indexer does after the commit: reads back, marks, answers, pins, prunes, collects."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from everstep_bus.errors import QueryRefusedError
from everstep_bus.interface import Bus
from everstep_checkpoint.media import Key
from everstep_checkpoint.storage import Storage
from everstep_checkpoint_indexer.decide import manifest_of
from everstep_checkpoint_indexer.gathering import attempt_of
from everstep_checkpoint_indexer.keeper import Keeper
from everstep_checkpoint_indexer.metrics import FAILED_SAVES, READ_BACK
from everstep_checkpoint_indexer.model import Complete, House, Policy
from everstep_contract.checkpoint_queries import (
    CheckpointPinned,
    ListCheckpoints,
    ListCheckpointsReply,
    PinCheckpoint,
    PruneCheckpoints,
    PruneCheckpointsReply,
)
from everstep_contract.facts.checkpoint import CheckpointDamaged, SaveFailed
from everstep_contract.manifest import Manifest
from support.bus_worlds import BusWorld
from support.indexing import committed, indexed, indexer, is_latest, keeping, verified, written
from support.jobs import JOB, NOW, member
from support.places import folder_of
from support.polling import eventually
from support.stepped_clock import SteppedClock

ASK_SECONDS = 5.0


@pytest.fixture
async def kept(
    bus: Bus, agent: Bus, person: Bus, storage: Storage
) -> AsyncIterator[dict[int, Path]]:
    """Three verified checkpoints that a byte budget keeps: the file of each, by step."""
    async with indexer(bus, storage, keeping(max_bytes=1000)):
        for step in (100, 200, 300):
            await agent.publish(written(storage, step=step))
        await eventually(lambda: _are_verified(person, {100, 200, 300}))
        yield {
            one.step: folder_of(storage, one) / one.shards[0].file for one in storage.manifests()[0]
        }


async def _are_verified(person: Bus, steps: set[int]) -> bool:
    return await verified(person) == steps


def found_damage(step: int) -> CheckpointDamaged:
    return CheckpointDamaged(
        at=NOW, job=JOB, member=member(3), checkpoint=f"g1-s{step}", detail="its hash is another"
    )


def failed(trouble: Any) -> SaveFailed:
    return SaveFailed(
        at=NOW,
        job=JOB,
        member=member(0),
        checkpoint="g1-s400",
        generation=1,
        step=400,
        kind="state",
        shard=0,
        trouble=trouble,
        attempt=1,
    )


async def test_a_commit_is_read_back_and_marked_on_storage_and_in_the_index(
    kept: dict[int, Path], person: Bus, storage: Storage
) -> None:
    listed, _ = storage.listed()
    assert all(one.is_proven for one in listed)
    marks = {one.manifest.step: one.marks.verified_at for one in listed}
    assert marks == {step: one.verified_at for step, one in (await indexed(person)).items()}


async def test_ec13_a_save_whose_bytes_are_not_what_was_told_is_not_the_latest(
    kept: dict[int, Path], agent: Bus, person: Bus, storage: Storage
) -> None:
    torn = written(storage, step=400)
    await agent.publish(torn.model_copy(update={"xxh3_128": "0" * 32}))
    await eventually(lambda: _is_damaged(person, 400))
    assert await is_latest(person, 300)
    assert [one.step for one in storage.manifests()[0]] == [100, 200, 300]


async def _is_damaged(person: Bus, step: int) -> bool:
    found = (await indexed(person)).get(step)
    return found is None or bool(found.damage)


async def test_a_checkpoint_that_a_worker_found_damaged_is_the_latest_no_longer(
    kept: dict[int, Path], agent: Bus, person: Bus, storage: Storage
) -> None:
    kept[300].write_bytes(b"y" * 10)
    await agent.publish(found_damage(300))
    await eventually(lambda: is_latest(person, 200))
    await eventually(lambda: _is_gone(storage, 300))  # it is read back, and two others are good


async def _is_gone(storage: Storage, step: int) -> bool:
    return step not in [one.manifest.step for one in storage.listed()[0]]


async def test_one_workers_broken_mount_does_not_cost_a_good_checkpoint(
    kept: dict[int, Path], agent: Bus, person: Bus
) -> None:
    before = (await indexed(person))[300].verified_at
    await agent.publish(found_damage(300))
    await eventually(lambda: _is_read_again(person, before))
    assert (await indexed(person))[300].damage == ""
    assert await is_latest(person, 300)


async def _is_read_again(person: Bus, before: object) -> bool:
    return (await indexed(person))[300].verified_at != before


async def test_ec28_after_each_read_back_the_oldest_goes_and_pins_stay(
    bus: Bus, agent: Bus, person: Bus, storage: Storage
) -> None:
    async with indexer(bus, storage):
        await agent.publish(written(storage, step=900))
        await eventually(lambda: is_latest(person, 900))
        await person.ask(
            PinCheckpoint(job=JOB, checkpoint="g1-s900"),
            CheckpointPinned,
            timeout_seconds=ASK_SECONDS,
        )
        for step in (9_900, 10_000, 10_100):
            await agent.publish(written(storage, step=step))
        await eventually(lambda: _are_verified(person, {900, 10_000, 10_100}))
    assert {one.step for one in storage.manifests()[0]} == {900, 10_000, 10_100}


async def test_a_pin_is_undone_and_a_name_that_is_none_is_refused(
    kept: dict[int, Path], person: Bus, storage: Storage
) -> None:
    for pinned in (True, False):
        query = PinCheckpoint(job=JOB, checkpoint="g1-s100", pinned=pinned)
        reply = await person.ask(query, CheckpointPinned, timeout_seconds=ASK_SECONDS)
        assert reply.record.pinned is pinned
        assert storage.listed()[0][0].marks.pinned is pinned
    with pytest.raises(QueryRefusedError, match="there is none"):
        await person.ask(
            PinCheckpoint(job=JOB, checkpoint="g1-s101"),
            CheckpointPinned,
            timeout_seconds=ASK_SECONDS,
        )


async def test_what_was_just_pinned_is_not_deleted_by_a_pruning_that_had_begun(
    kept: dict[int, Path], person: Bus, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Event(), threading.Event()
    set_aside = storage.set_aside

    def slow(manifest: Manifest) -> Key:
        begun.set()
        may_go_on.wait(ASK_SECONDS)
        return set_aside(manifest)

    monkeypatch.setattr(storage, "set_aside", slow)
    for manifest in storage.manifests()[0][:2]:
        storage.mark(manifest, damage="cut short")
    pin = PinCheckpoint(job=JOB, checkpoint="g1-s200")
    async with asyncio.TaskGroup() as group:
        prune = PruneCheckpoints(dry_run=False)
        ask = person.ask(prune, PruneCheckpointsReply, timeout_seconds=2 * ASK_SECONDS)
        group.create_task(ask)
        assert await asyncio.to_thread(begun.wait, ASK_SECONDS)
        asked = group.create_task(_is_pinned(person, pin))
        await asyncio.wait([asked], timeout=0.5)
        may_go_on.set()
    assert asked.result() == (200 in {one.manifest.step for one in storage.listed()[0]})


async def _is_pinned(person: Bus, pin: PinCheckpoint) -> bool:
    try:
        await person.ask(pin, CheckpointPinned, timeout_seconds=2 * ASK_SECONDS)
    except QueryRefusedError:
        return False
    return True


async def test_a_list_has_the_best_first_and_what_each_is_good_for(
    kept: dict[int, Path], person: Bus
) -> None:
    reply = await person.ask(
        ListCheckpoints(job=JOB), ListCheckpointsReply, timeout_seconds=ASK_SECONDS
    )
    assert [(one.record.step, one.standing) for one in reply.checkpoints] == [
        (300, "newest"),
        (200, "good"),
        (100, "good"),
    ]


async def test_a_dry_run_of_a_pruning_says_what_the_real_one_then_deletes(
    kept: dict[int, Path], bus: Bus, person: Bus, world: BusWorld, storage: Storage
) -> None:
    async def prune(*, dry_run: bool) -> list[int]:
        query = PruneCheckpoints(dry_run=dry_run)
        reply = await person.ask(query, PruneCheckpointsReply, timeout_seconds=ASK_SECONDS)
        return [one.step for one in reply.checkpoints]

    assert await prune(dry_run=False) == []  # the budget keeps all
    storage.mark(storage.manifests()[0][0], damage="cut short")
    assert await prune(dry_run=True) == [100]
    assert len(storage.listed()[0]) == 3
    assert await prune(dry_run=False) == [100]
    assert (await indexed(person)).keys() == {200, 300}


async def test_ec56_a_full_disk_lets_go_at_once_what_only_a_budget_keeps_and_is_counted(
    kept: dict[int, Path], agent: Bus, storage: Storage
) -> None:
    counted = FAILED_SAVES.labels("full")
    before = counted._value.get()
    await agent.publish(failed("full"))
    await eventually(lambda: _is_gone(storage, 100))
    assert counted._value.get() == before + 1
    assert [one.step for one in storage.manifests()[0]] == [200, 300]


async def test_a_save_that_failed_for_another_reason_deletes_nothing(
    kept: dict[int, Path], agent: Bus, person: Bus, storage: Storage
) -> None:
    counted = FAILED_SAVES.labels("unwritable")
    before = counted._value.get()
    await agent.publish(failed("unwritable"))
    await eventually(lambda: counted._value.get() == before + 1)
    assert len(storage.manifests()[0]) == 3


async def test_after_a_pause_what_newer_ones_make_superfluous_goes_without_being_read(
    bus: Bus, agent: Bus, person: Bus, storage: Storage
) -> None:
    steps = range(100, 130)
    for step in steps:
        await agent.publish(written(storage, step=step))
    whole = READ_BACK.labels("whole")
    before = whole._value.get()
    async with indexer(bus, storage):
        await eventually(lambda: _are_verified(person, {128, 129}))
    assert whole._value.get() - before < len(steps)


async def test_what_was_imported_is_taken_in_without_a_restart(
    bus: Bus, world: BusWorld, storage: Storage
) -> None:
    keeper = Keeper(House(bus, storage, Policy(), SteppedClock(NOW)))
    fact = written(storage)
    storage.commit(manifest_of(Complete(attempt_of(fact), 1, (fact,)), None))
    await keeper.compare_with_storage()
    await keeper.compare_with_storage()
    assert (await indexed(bus)).keys() == {100}
    assert [one.step for one in await committed(world)] == [100]
    assert keeper.reader.waiting == ("g1-s100",)


async def test_ec14_an_attempt_that_stands_still_is_collected_and_one_that_is_awaited_is_not(
    bus: Bus, storage: Storage
) -> None:
    clock = SteppedClock(NOW)
    keeper = Keeper(House(bus, storage, Policy(), clock))
    _, awaited = (written(storage, step=step, shards=2) for step in (100, 200))
    await keeper.compare_with_storage()
    clock.step(seconds=Policy().idle_seconds)
    keeper.take(awaited)
    await keeper.compare_with_storage()
    attempt = storage.attempt(JOB, awaited.member.job_uid, 1, 200)
    assert list(storage.leftovers()) == [attempt]
