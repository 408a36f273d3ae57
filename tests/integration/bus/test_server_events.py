"""The system account's view: who is connected, and who no longer is."""

import pytest
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Connected, Disconnected
from everstep_contract.clients import agent_client_name
from support.bus_worlds import BusWorld
from support.messages import JOB
from support.polling import collected, eventually

NAME = agent_client_name(JOB, "worker-0.1")


async def test_connections_and_their_ends_are_told(world: BusWorld) -> None:
    events = await world.server_events()
    await eventually(lambda: events.connected)
    async with collected(events.advisories()) as advisories:
        await _heard_at_all(world, advisories)
        bus = await world.agent(JOB, "worker-0.1")

        async def listed() -> bool:
            return any(one.name == NAME for one in await events.connections())

        await eventually(listed)
        [connection] = [one for one in await events.connections() if one.name == NAME]
        await eventually(lambda: Connected(connection) in advisories)
        await world.disconnect(bus)
        await eventually(lambda: Disconnected(connection, "Client Closed") in advisories)

        async def gone() -> bool:
            return not await listed()

        await eventually(gone)


async def test_without_a_server_the_inventory_says_so(world: BusWorld) -> None:
    events = await world.server_events()
    await eventually(lambda: events.connected)
    await world.stop()
    await eventually(lambda: not events.connected)
    with pytest.raises(TransientBusError):
        await events.connections()
    await world.start()
    await eventually(lambda: events.connected)
    await eventually(events.connections)


async def _heard_at_all(world: BusWorld, advisories: list[Connected | Disconnected]) -> None:
    async def connect_another() -> bool:
        await world.service("canary")
        return bool(advisories)

    await eventually(connect_another)
