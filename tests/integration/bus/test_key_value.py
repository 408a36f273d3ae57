"""Buckets: compare-and-set and watch."""

import pytest
from everstep_bus.errors import RevisionMismatchError, UndecodableMessageError
from everstep_contract.layout import JOBS, LEASES
from support.bus_worlds import BusWorld, dead_letters
from support.messages import JOB, OTHER_JOB, lease, record
from support.polling import collected, eventually

KEY = JOB.token
OTHER = OTHER_JOB.token


async def test_a_value_is_created_read_and_replaced_at_the_revision_just_read(
    world: BusWorld,
) -> None:
    kv = (await world.service()).kv(JOBS)
    assert await kv.get(KEY) is None
    first = await kv.put(KEY, record(1), expected=0)
    second = await kv.put(KEY, record(2), expected=first)
    entry = await kv.get(KEY)
    assert entry is not None
    assert (entry.key, entry.revision, entry.value) == (KEY, second, record(2))
    assert second > first


async def test_of_two_writers_at_one_revision_one_wins(world: BusWorld) -> None:
    kv = (await world.service()).kv(JOBS)
    first = await kv.put(KEY, record(1), expected=0)
    await kv.put(KEY, record(2), expected=first)
    for stale in (0, first):
        with pytest.raises(RevisionMismatchError) as caught:
            await kv.put(KEY, record(3), expected=stale)
        assert caught.value.key == KEY


async def test_a_deleted_key_is_gone_and_can_be_created_again(world: BusWorld) -> None:
    kv = (await world.service()).kv(LEASES)
    first = await kv.put("leader", lease(1), expected=0)
    with pytest.raises(RevisionMismatchError):
        await kv.delete("leader", expected=first + 5)
    await kv.delete("leader", expected=first)
    assert await kv.get("leader") is None
    assert await kv.entries() == ()
    assert await kv.put("leader", lease(2), expected=0) > first


async def test_all_values_come_in_key_order(world: BusWorld) -> None:
    kv = (await world.service()).kv(JOBS)
    await kv.put(OTHER, record(5, OTHER_JOB), expected=0)
    await kv.put(KEY, record(1), expected=0)
    entries = await kv.entries()
    stored = {KEY: record(1), OTHER: record(5, OTHER_JOB)}
    assert [(entry.key, entry.value) for entry in entries] == sorted(stored.items())


async def test_a_watch_yields_what_is_there_and_then_every_change(world: BusWorld) -> None:
    kv = (await world.service()).kv(JOBS)
    first = await kv.put(KEY, record(1), expected=0)
    async with collected(kv.watch()) as entries:
        await eventually(lambda: len(entries) == 1)
        second = await kv.put(KEY, record(2), expected=first)
        await eventually(lambda: len(entries) == 2)
        await kv.delete(KEY, expected=second)
        await eventually(lambda: len(entries) == 3)
    assert [entry.value for entry in entries] == [record(1), record(2), None]
    assert [entry.revision for entry in entries] == sorted(entry.revision for entry in entries)


async def test_ec04_a_watch_whose_feed_is_lost_finds_what_it_missed(world: BusWorld) -> None:
    kv = (await world.service()).kv(JOBS)
    first = await kv.put(KEY, record(7), expected=0)
    async with collected(kv.watch()) as entries:
        await eventually(lambda: len(entries) == 1)
        await world.lose_followers("KV_jobs")
        await kv.put(KEY, record(8), expected=first)
        await eventually(lambda: len(entries) == 2, within_seconds=15)
    assert [entry.value for entry in entries] == [record(7), record(8)]


async def test_a_watch_proves_that_it_delivers_while_nothing_changes(world: BusWorld) -> None:
    kv = (await world.service()).kv(JOBS)
    proofs: list[None] = []
    async with collected(kv.watch(proven=lambda: proofs.append(None))) as entries:
        await eventually(lambda: len(proofs) >= 2)
    assert entries == []


async def test_a_watch_goes_on_after_the_server_came_back(world: BusWorld) -> None:
    bus = await world.service()
    kv = bus.kv(JOBS)
    first = await kv.put(KEY, record(1), expected=0)
    async with collected(kv.watch()) as entries:
        await eventually(lambda: len(entries) == 1)
        await world.stop()
        await eventually(lambda: not bus.connected)
        await world.start()
        await eventually(lambda: bus.connected)
        await kv.put(KEY, record(2), expected=first)
        await eventually(lambda: len(entries) == 2, within_seconds=10)
    assert [entry.value for entry in entries] == [record(1), record(2)]


async def test_a_watch_yields_everything_anew_after_its_bucket_was_lost(world: BusWorld) -> None:
    kv = (await world.service()).kv(JOBS)
    first = await kv.put(KEY, record(1), expected=0)
    await kv.put(KEY, record(2), expected=first)
    async with collected(kv.watch()) as entries:
        await eventually(lambda: len(entries) == 1)
        await world.lose_stream("KV_jobs")
        revision = await kv.put(KEY, record(2), expected=0)
        await eventually(lambda: len(entries) == 2)
    assert entries[1].value == record(2)
    assert entries[1].revision == revision == 1


async def test_a_value_that_cannot_be_decoded_is_dead_and_the_watch_goes_on(
    world: BusWorld,
) -> None:
    kv = (await world.service()).kv(JOBS)
    await world.inject(f"$KV.jobs.{KEY}", b"{}", {})
    async with collected(kv.watch()) as entries:
        await kv.put(OTHER, record(5, OTHER_JOB), expected=0)
        await eventually(lambda: len(entries) == 1)
        await eventually(lambda: dead_letters(world))
    [letter] = await dead_letters(world)
    assert (letter.cause, letter.consumer) == ("undecodable", "kv:jobs")
    with pytest.raises(UndecodableMessageError):
        await kv.get(KEY)
