"""The two worlds the bus suite runs in: the in-memory twin and a real nats-server."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from everstep_bus.interface import Bus, ServerEvents
from everstep_bus.memory import MemoryBroker, MemoryBus, MemoryServerEvents, Mischief
from everstep_contract.clients import agent_client_name, service_client_name
from everstep_contract.dead import DeadLetter
from everstep_contract.envelope import decode
from everstep_contract.identity import JobKey
from everstep_contract.layout import ALL_STREAMS, DEAD

AGENT = "agent"


class BusWorld(Protocol):
    """A server, connections to it, and what can go wrong with both."""

    async def service(self, role: str = "adjudicator", instance: str = "1") -> Bus: ...
    async def agent(self, job: JobKey, incarnation: str) -> Bus: ...
    async def server_events(self) -> ServerEvents: ...
    async def disconnect(self, bus: Bus) -> None:
        """End a connection, as its process does when it ends."""

    async def stop(self) -> None:
        """Kill the server."""

    async def start(self) -> None:
        """Start it again on the same store."""

    async def remember(self) -> None:
        """Note what the disk holds now."""

    async def lose_since(self, stream: str) -> None:
        """Restart the server with what the disk held of one stream when it was noted."""

    async def lose_stream(self, name: str) -> None: ...
    async def lose_durable(self, stream: str, name: str) -> None: ...
    async def lose_followers(self, stream: str) -> None:
        """What feeds watches and subscriptions of the stream is lost on the server."""

    async def inject(self, subject: str, payload: bytes, headers: dict[str, str]) -> None: ...
    async def stored(self, stream: str) -> list[tuple[str, dict[str, str], bytes]]: ...


async def dead_letters(world: BusWorld) -> list[DeadLetter]:
    letters = [decode(headers, payload) for _, headers, payload in await world.stored(DEAD.name)]
    return [letter for letter in letters if isinstance(letter, DeadLetter)]


class MemoryWorld:
    """The twin."""

    def __init__(self, mischief: Mischief | None = None) -> None:
        self.broker = MemoryBroker(mischief or Mischief(), now=lambda: datetime.now(UTC))
        self._closers: list[Callable[[], None]] = []
        self._stopped = False
        self._remembered: dict[str, int] = {}

    async def service(self, role: str = "adjudicator", instance: str = "1") -> MemoryBus:
        return self._connect(service_client_name(role, instance))  # type: ignore[arg-type]

    async def agent(self, job: JobKey, incarnation: str) -> MemoryBus:
        return self._connect(agent_client_name(job, incarnation))

    async def server_events(self) -> MemoryServerEvents:
        events = MemoryServerEvents(self.broker, service_client_name("node_watcher", "system"))
        self._closers.append(events.close)
        return events

    async def disconnect(self, bus: Bus) -> None:
        assert isinstance(bus, MemoryBus)
        bus.close()

    def _connect(self, name: str) -> MemoryBus:
        bus = MemoryBus(self.broker, name)
        self._closers.append(bus.close)
        return bus

    async def stop(self) -> None:
        self._stopped = True
        self.broker.stop()

    async def start(self) -> None:
        if self._stopped:
            self.broker.start()
        self._stopped = False

    async def remember(self) -> None:
        for spec in ALL_STREAMS:
            self._remembered[spec.name] = self.broker.stream(spec).last_sequence

    async def lose_since(self, stream: str) -> None:
        spec = next(spec for spec in ALL_STREAMS if spec.name == stream)
        self.broker.stop()
        lost = self.broker.stream(spec).last_sequence - self._remembered[stream]
        self.broker.lose_tail(stream, lost)
        self.broker.start()

    async def lose_stream(self, name: str) -> None:
        self.broker.lose_stream(name)

    async def lose_durable(self, stream: str, name: str) -> None:
        self.broker.lose_consumer(stream, name)

    async def lose_followers(self, stream: str) -> None:
        dice = self.broker.dice
        dice.mischief = replace(dice.mischief, lose_notice=1.0)

    async def inject(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        self.broker.inject(subject, payload, headers)

    async def stored(self, stream: str) -> list[tuple[str, dict[str, str], bytes]]:
        spec = next(spec for spec in ALL_STREAMS if spec.name == stream)
        messages = self.broker.stream(spec).after(0)
        return [(one.subject, dict(one.headers), one.payload) for one in messages]

    async def close(self) -> None:
        for close in self._closers:
            close()
