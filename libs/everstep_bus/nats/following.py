"""Read a stream as it grows, through consumers on the server that may vanish at any time (EC-04).

Two ways: `newest` yields the last message of each subject and then each newer one, and compares
itself with the stream now and then; `history` yields every message in order.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import structlog
from everstep_contract.layout import Stream
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Proven, unheard
from everstep_bus.nats.jetstream import JetStream
from everstep_bus.nats.link import backoff_seconds
from everstep_bus.nats.pull import ConsumerLostError, PulledFrom, pulling
from everstep_bus.stored import Stored

BATCH: Final = 256
"""Messages on their way to a slow reader; what is overwritten meanwhile never travels."""
ABANDONED_SECONDS: Final = 10.0
"""How long the server keeps a consumer that nobody polls."""

log = structlog.get_logger()


class Stamp(NamedTuple):
    """Names one write for ever: a sequence alone is used again after a tail was lost."""

    sequence: int
    stored_at: datetime


class Followed(NamedTuple):
    """A message, and the write it is."""

    stored: Stored
    stamp: Stamp


async def newest(
    jetstream: JetStream, spec: Stream, *, check_seconds: float, proven: Proven = unheard
) -> AsyncIterator[Stored]:
    """The newest message of each subject, then each newer one, in order per subject, for ever.

    After each reconnection, and whenever the stream turns out to be further than we are, it
    reads all subjects again. A message older than one already yielded is yielded only if the
    stream's leader confirms that it is the newest now: then the tail was lost.
    """
    view = _View(jetstream, spec)
    failures = 0
    while True:
        await jetstream.link.session()
        try:
            await view.begin()
            feed = _feed(jetstream, _Reading(spec, spec.subjects, 1, check_seconds, proven))
            async with aclosing(feed):
                async for followed in feed:
                    failures = 0
                    if followed is None:
                        await view.check()
                    elif await view.is_news(followed):
                        yield followed.stored
        except TransientBusError as error:
            await _pause(jetstream, spec, error, failures)
            failures += 1


async def history(
    jetstream: JetStream, spec: Stream, filters: tuple[str, ...]
) -> AsyncIterator[Stored]:
    """Every message that a filter admits, from the first, then each new one, for ever."""
    cursor, created, failures = 0, "", 0
    while True:
        await jetstream.link.session()
        try:
            state = await jetstream.state(spec)
            if state.created != created or state.last_sequence < cursor:
                cursor, created = 0, state.created
            feed = _feed(jetstream, _Reading(spec, filters, cursor + 1, ABANDONED_SECONDS))
            async with aclosing(feed):
                async for followed in feed:
                    failures = 0
                    if followed is not None:
                        cursor = followed.stored.sequence
                        yield followed.stored
        except TransientBusError as error:
            await _pause(jetstream, spec, error, failures)
            failures += 1


class _View:
    """What of a stream was yielded so far."""

    def __init__(self, jetstream: JetStream, spec: Stream) -> None:
        self._jetstream = jetstream
        self._spec = spec
        self._seen: dict[str, Stamp] = {}
        self._created = ""
        self._begun_at = 0
        self._reached = 0
        self._suspect = False

    async def begin(self) -> None:
        """A new reading of all subjects starts."""
        state = await self._jetstream.state(self._spec)
        if state.created != self._created:
            self._seen.clear()
        self._created = state.created
        self._begun_at = state.last_sequence
        self._reached = 0
        self._suspect = False

    async def is_news(self, followed: Followed) -> bool:
        """Whether to yield it; notes that it was."""
        stored, stamp = followed
        passed = stored.sequence - 1 - max(self._reached, self._begun_at)
        self._jetstream.link.counts.skipped += max(passed, 0)
        self._reached = stored.sequence
        self._suspect = False
        seen = self._seen.get(stored.subject)
        if stamp == seen:
            return False
        if seen is not None and stamp.sequence <= seen.sequence:
            current = await self._jetstream.last(self._spec, stored.subject)
            if current is None or current.sequence != stamp.sequence:
                return False
        self._seen[stored.subject] = stamp
        return True

    async def check(self) -> None:
        """Compare with the stream; raises at the second difference in a row."""
        state = await self._jetstream.state(self._spec)
        reached = state.messages == 0 or state.last_sequence == self._reached
        same = state.created == self._created and reached
        if not same and self._suspect:
            self._jetstream.link.counts.resyncs += 1
            raise ConsumerLostError(consumer=self._spec.name, why="it missed a change")
        self._suspect = not same


@dataclass(frozen=True)
class _Reading:
    """What one consumer on the server is to deliver, from sequence ``start``."""

    spec: Stream
    filters: tuple[str, ...]
    start: int
    idle_seconds: float
    proven: Proven = unheard


async def _feed(jetstream: JetStream, reading: _Reading) -> AsyncGenerator[Followed | None, None]:
    """The messages; None whenever none came for ``idle_seconds``.

    Raises:
        TransientBusError: Something broke; what comes next may be lost on this feed.
    """
    session = await jetstream.link.session()
    name = f"follow-{secrets.token_hex(8)}"
    await jetstream.make_consumer(reading.spec, _consumer_config(name, reading))
    source = PulledFrom(reading.spec.name, name, BATCH, reading.proven)
    expected = 1
    async with pulling(session, source) as pull:
        while True:
            message = await pull.next(reading.idle_seconds)
            if message is None:
                yield None
                continue
            followed, number = _parse(message)
            if number != expected:
                raise ConsumerLostError(consumer=name, why=f"{number} came instead of {expected}")
            expected += 1
            yield followed


def _consumer_config(name: str, reading: _Reading) -> ConsumerConfig:
    return ConsumerConfig(
        name=name,
        deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
        opt_start_seq=reading.start,
        ack_policy=AckPolicy.NONE,
        filter_subjects=list(reading.filters),
        inactive_threshold=ABANDONED_SECONDS,
        num_replicas=1,
        mem_storage=True,
    )


def _parse(message: Msg) -> tuple[Followed, int]:
    """The message, and its number among those of its consumer."""
    about = message.metadata
    sequence = about.sequence.stream
    stored = Stored(sequence, message.subject, message.headers or {}, message.data)
    return Followed(stored, Stamp(sequence, about.timestamp)), about.sequence.consumer


async def _pause(jetstream: JetStream, spec: Stream, why: Exception, failures: int) -> None:
    """Log why a reading is started over, when that is no plain reconnection, and wait a little."""
    jetstream.link.counts.rebuilds += 1
    if jetstream.link.connected:
        log.warning("bus watch made anew", stream=spec.name, why=str(why))
    await asyncio.sleep(backoff_seconds(failures) if failures else 0)
