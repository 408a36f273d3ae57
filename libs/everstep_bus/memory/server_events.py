"""The system account's view of the twin's server."""

import asyncio
from collections.abc import AsyncIterator

from everstep_bus.interface import Connected, Connection, Disconnected
from everstep_bus.memory.broker import MemoryBroker
from everstep_bus.memory.connections import Link, Listener


class MemoryServerEvents:
    """`ServerEvents` of the twin, over a connection of its own that can be lost as well."""

    def __init__(self, broker: MemoryBroker, client_name: str) -> None:
        self._broker = broker
        self._link = Link(broker.connections, client_name)

    @property
    def connected(self) -> bool:
        return self._link.up

    async def advisories(self) -> AsyncIterator[Connected | Disconnected]:
        connections = self._broker.connections
        while True:
            connection = await self._link.wait_up()
            listener = connections.listen()
            try:
                async for advisory in self._heard(listener, connection):
                    yield advisory
            finally:
                connections.listeners.remove(listener)

    async def connections(self) -> tuple[Connection, ...]:
        self._link.require()
        await asyncio.sleep(self._broker.dice.delay_seconds())
        self._link.require()
        return self._broker.connections.table()

    def close(self) -> None:
        """End the connection for good."""
        self._link.close()

    async def _heard(
        self, listener: Listener, connection: Connection
    ) -> AsyncIterator[Connected | Disconnected]:
        while self._link.connection is connection:
            if not listener.waiting:
                await listener.changed.wait(timeout_seconds=1.0)
                continue
            await asyncio.sleep(self._broker.dice.delay_seconds())
            yield listener.waiting.popleft()
