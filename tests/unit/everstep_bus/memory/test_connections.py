"""Connections to the twin end, come back, and are told of as by a real server."""

import asyncio

from everstep_bus.interface import Connected, Disconnected
from everstep_bus.memory import MemoryBroker, MemoryBus, MemoryServerEvents
from everstep_contract.clients import agent_client_name
from support.messages import JOB
from support.polling import collected
from support.virtual_time import VirtualClock, in_virtual_time

NAME = agent_client_name(JOB, "worker-0.1")


def broker() -> MemoryBroker:
    return MemoryBroker(now=VirtualClock().now)


def names(events: list[Connected | Disconnected]) -> list[tuple[str, str]]:
    """Who, and how it ended; empty where it began."""
    return [
        (one.connection.name, one.reason if isinstance(one, Disconnected) else "") for one in events
    ]


@in_virtual_time
async def test_a_severed_client_is_stale_after_a_while_and_stays_away_until_mended() -> None:
    world = broker()
    bus = MemoryBus(world, NAME)
    events = MemoryServerEvents(world, "watcher")
    async with collected(events.advisories()) as advisories:
        await asyncio.sleep(0.1)
        world.connections.sever(NAME)
        assert not bus.connected
        assert NAME in {one.name for one in await events.connections()}
        await asyncio.sleep(5)
        assert names(advisories) == [(NAME, "Stale Connection")]
        assert NAME not in {one.name for one in await events.connections()}
        assert not bus.connected
        world.connections.mend(NAME)
        await asyncio.sleep(5)
    assert bus.connected
    assert names(advisories) == [(NAME, "Stale Connection"), (NAME, "")]


@in_virtual_time
async def test_a_closed_client_says_goodbye_and_never_comes_back() -> None:
    world = broker()
    bus = MemoryBus(world, NAME)
    events = MemoryServerEvents(world, "watcher")
    async with collected(events.advisories()) as advisories:
        await asyncio.sleep(0.1)
        bus.close()
        await asyncio.sleep(5)
    assert names(advisories) == [(NAME, "Client Closed")]
    assert not bus.connected


@in_virtual_time
async def test_a_later_life_of_the_same_name_ends_the_former() -> None:
    world = broker()
    former = MemoryBus(world, NAME)
    latter = MemoryBus(world, NAME)
    await asyncio.sleep(5)
    assert (former.connected, latter.connected) == (False, True)


@in_virtual_time
async def test_a_killed_server_tells_nobody_and_is_another_when_it_is_back() -> None:
    world = broker()
    bus = MemoryBus(world, NAME)
    events = MemoryServerEvents(world, "watcher")
    [before] = [one for one in await events.connections() if one.name == NAME]
    async with collected(events.advisories()) as advisories:
        await asyncio.sleep(0.1)
        world.stop()
        await asyncio.sleep(5)
        assert (bus.connected, events.connected, advisories) == (False, False, [])
        world.start()
        await asyncio.sleep(5)
    [after] = [one for one in await events.connections() if one.name == NAME]
    assert bus.connected
    assert after.server_id != before.server_id
