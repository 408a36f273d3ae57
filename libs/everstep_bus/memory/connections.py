"""Connections of clients to the twin's one server: they end, come back, and leave advisories."""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Connected, Connection, Disconnected
from everstep_bus.memory.mischief import Dice
from everstep_bus.memory.signals import Changed
from everstep_bus.timing import WAITING_ADVISORIES

CLIENT_CLOSED: Final = "Client Closed"
STALE_CONNECTION: Final = "Stale Connection"
STALE_SECONDS: Final = 0.6
"""How long nats-server takes to notice silence: 200 ms between pings, at most two unanswered."""
RECONNECT_SECONDS: Final = 0.2
"""About how long a client takes to come back."""


class Link:
    """One client's connection, which comes back by itself until it is closed."""

    def __init__(self, connections: "Connections", name: str) -> None:
        self.name = name
        self.connection: Connection | None = None
        self.closed = False
        self.changed = Changed()
        self._connections = connections
        connections.register(self)

    @property
    def up(self) -> bool:
        """Whether it is connected right now."""
        return self.connection is not None

    def require(self) -> Connection:
        """The connection.

        Raises:
            TransientBusError: There is none right now.
        """
        if self.connection is None:
            raise TransientBusError(f"{self.name} is not connected")
        return self.connection

    async def wait_up(self) -> Connection:
        """Wait for the connection."""
        while self.connection is None:
            await self.changed.wait()
        return self.connection

    def close(self) -> None:
        """End for good, and say goodbye as a process's kernel does."""
        self.closed = True
        self._connections.end(self, CLIENT_CLOSED)


@dataclass
class Listener:
    """One reader of advisories."""

    waiting: deque[Connected | Disconnected]
    changed: Changed


class Connections:
    """The server's table of clients."""

    def __init__(self, dice: Dice) -> None:
        self.listeners: list[Listener] = []
        self._dice = dice
        self._up = True
        self._restarts = 0
        self._client_ids = 0
        self._links: dict[str, Link] = {}
        self._severed: set[str] = set()
        self._table: dict[int, Connection] = {}

    def register(self, link: Link) -> None:
        """A client starts; one of the same name that is still there is its former life."""
        former = self._links.get(link.name)
        if former is not None:
            former.close()
        self._links[link.name] = link
        self._admit(link)

    def table(self) -> tuple[Connection, ...]:
        """All connections the server believes in."""
        return tuple(self._table.values())

    def listen(self) -> Listener:
        """A new reader of advisories."""
        listener = Listener(deque(maxlen=WAITING_ADVISORIES), Changed())
        self.listeners.append(listener)
        return listener

    def end(self, link: Link, reason: str) -> None:
        """End a link's connection; it comes back unless it was closed or severed."""
        connection = link.connection
        if connection is not None:
            self._forget(link, connection)
            self._vanish(connection, reason)
        if not link.closed:
            self._come_back(link)

    def drop(self, name: str, reason: str = CLIENT_CLOSED) -> None:
        """End the connection of one client; it comes back by itself."""
        self.end(self._links[name], reason)

    def drop_all(self, reason: str = CLIENT_CLOSED) -> None:
        """End all connections; they come back by themselves."""
        for link in list(self._links.values()):
            self.end(link, reason)

    def sever(self, name: str, *, noticed_after_seconds: float = STALE_SECONDS) -> None:
        """Cut a client's way to the server, silently: the server notices a little later.

        It stays cut, for a later life of the same name too, until `mend`.
        """
        self._severed.add(name)
        link = self._links.get(name)
        if link is None or link.connection is None:
            return
        connection = link.connection
        self._forget(link, connection)
        asyncio.get_running_loop().call_later(
            noticed_after_seconds, self._vanish, connection, STALE_CONNECTION
        )

    def mend(self, name: str) -> None:
        """Undo `sever`."""
        self._severed.discard(name)
        if name in self._links:
            self._come_back(self._links[name])

    def stop(self) -> None:
        """Kill the server: nobody is left to tell of it."""
        self._up = False
        for link in self._links.values():
            if link.connection is not None:
                self._forget(link, link.connection)
        self._table.clear()

    def start(self) -> None:
        """Start the server anew; clients come back, each in its own time."""
        self._up = True
        self._restarts += 1
        for link in self._links.values():
            self._come_back(link)

    def _come_back(self, link: Link) -> None:
        delay_seconds = self._dice.jitter(RECONNECT_SECONDS)
        asyncio.get_running_loop().call_later(delay_seconds, self._admit, link)

    def _admit(self, link: Link) -> None:
        current = self._links.get(link.name) is link
        severed = link.name in self._severed
        if link.closed or link.up or not current or severed or not self._up:
            return
        self._client_ids += 1
        connection = Connection(f"memory-{self._restarts}", self._client_ids, link.name)
        self._table[connection.client_id] = link.connection = connection
        link.changed.notify()
        self._tell(Connected(connection))

    def _forget(self, link: Link, connection: Connection) -> None:
        link.connection = None
        link.changed.notify()

    def _vanish(self, connection: Connection, reason: str) -> None:
        if self._table.pop(connection.client_id, None) is not None:
            self._tell(Disconnected(connection, reason))

    def _tell(self, advisory: Connected | Disconnected) -> None:
        for listener in self.listeners:
            listener.waiting.append(advisory)
            listener.changed.notify()
