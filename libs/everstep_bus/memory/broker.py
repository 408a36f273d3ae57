"""The twin's one server: streams, durable consumers, responders, and the faults to inject."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from everstep_contract.layout import ALL_STREAMS, Bucket, Consumer, Stream, bucket_stream

from everstep_bus.errors import TransientBusError
from everstep_bus.memory.connections import Connections
from everstep_bus.memory.consumer import MemoryConsumer
from everstep_bus.memory.filters import admits
from everstep_bus.memory.mischief import CALM, Dice, Mischief
from everstep_bus.memory.stream import MemoryStream

if TYPE_CHECKING:
    from everstep_bus.memory.responder import Responder


def utc_now() -> datetime:
    """The machine's time; a simulation hands in its own."""
    return datetime.now(UTC)


class MemoryBroker:
    """State that outlives connections. Make it where the event loop runs whose time it uses."""

    def __init__(self, mischief: Mischief = CALM, *, now: Callable[[], datetime] = utc_now) -> None:
        self.dice = Dice(mischief)
        self.now = now
        self.connections = Connections(self.dice)
        self.responders: dict[str, list[Responder]] = {}
        self._streams: dict[str, MemoryStream] = {}
        self._consumers: dict[tuple[str, str], MemoryConsumer] = {}
        self.provision()

    def provision(self) -> None:
        """Make every stream and bucket that is missing."""
        for spec in ALL_STREAMS:
            if spec.name not in self._streams:
                self._streams[spec.name] = MemoryStream(spec, _loop_seconds)

    def stream(self, spec: Stream) -> MemoryStream:
        """The stream.

        Raises:
            TransientBusError: It was lost and nobody has made it anew yet.
        """
        try:
            return self._streams[spec.name]
        except KeyError:
            raise TransientBusError(f"there is no stream {spec.name!r}") from None

    def bucket(self, bucket: Bucket[Any]) -> MemoryStream:
        """The stream behind a bucket; raises as `stream`."""
        return self.stream(bucket_stream(bucket))

    def consumer(self, spec: Consumer, *, resume_after: int | None) -> MemoryConsumer:
        """The durable consumer, made if it is not there; raises as `stream`.

        A new one starts behind ``resume_after``; None: where its specification says.
        """
        stream = self.stream(spec.stream)
        key = (spec.stream.name, spec.name)
        if key not in self._consumers:
            start = stream.last_sequence if spec.from_now else 0
            start = start if resume_after is None else min(resume_after, stream.last_sequence)
            self._consumers[key] = MemoryConsumer(spec, start, self.dice)
        consumer = self._consumers[key]
        consumer.spec = spec  # its last user's word counts, as it does on NATS
        return consumer

    def lose_stream(self, name: str) -> None:
        """Lose a stream or a bucket (``KV_<bucket>``) with all its consumers."""
        lost = self._streams.pop(name)
        for key in [key for key in self._consumers if key[0] == name]:
            del self._consumers[key]
        lost.changed.notify()

    def lose_consumer(self, stream: str, name: str) -> None:
        """Lose one durable consumer and what it knew."""
        del self._consumers[stream, name]

    def lose_tail(self, name: str, count: int) -> None:
        """Lose the last acknowledged writes of a stream, as with its disk."""
        self._streams[name].lose_tail(count)
        self._followers_of(self._streams[name])

    def stop(self) -> None:
        """Kill the server; what is not on disk is gone."""
        self.connections.stop()
        for stream in self._streams.values():
            if stream.spec.storage == "memory":
                stream.clear()
                self._followers_of(stream)

    def start(self) -> None:
        """Start it again on the same store."""
        self.connections.start()

    def inject(self, subject: str, payload: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Store any bytes on any subject, as somebody with the credentials for it can.

        Returns the sequence.
        """
        for stream in self._streams.values():
            if any(admits(wanted, subject) for wanted in stream.spec.subjects):
                return stream.append(subject, dict(headers or {}), payload, expected=None)
        raise ValueError(f"no stream takes {subject!r}")

    def _followers_of(self, stream: MemoryStream) -> None:
        for (name, _), consumer in self._consumers.items():
            if name == stream.spec.name:
                consumer.follow(stream.last_sequence)


def _loop_seconds() -> float:
    return asyncio.get_running_loop().time()
