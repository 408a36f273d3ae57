"""Messages of one consumer on the server, by long polls that prove that they are alive.

While a poll waits, the server sends a heartbeat every second; silence, or a status that ends the
poll for good, means that the consumer is gone, whatever the connection says (EC-03).
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from nats.aio.msg import Msg
from nats.js.api import Header, StatusCode

from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Proven, unheard
from everstep_bus.nats.feed import Feed, subscribed
from everstep_bus.nats.session import Session

POLL_SECONDS: Final = 10.0
HEARTBEAT_SECONDS: Final = 1.0
MISSED_HEARTBEATS: Final = 2.5
_NANOSECONDS: Final = 1_000_000_000


class ConsumerLostError(TransientBusError):
    """The consumer on the server does not answer, or says that it is gone."""

    def __init__(self, *, consumer: str, why: str) -> None:
        super().__init__(f"consumer {consumer!r} is lost: {why}")


@dataclass(frozen=True)
class PulledFrom:
    """Which consumer is polled, and how many messages may be on their way at once."""

    stream: str
    consumer: str
    batch: int
    proven: Proven = unheard


class Pull:
    """One consumer's long poll."""

    def __init__(self, session: Session, source: PulledFrom, feed: Feed, inbox: str) -> None:
        self._proven = source.proven
        self._session = session
        self._source = source
        self._feed = feed
        self._inbox = inbox
        self._coming = 0
        self._heard_at = _now()

    async def next(self, wait_seconds: float) -> Msg | None:
        """The next message, or None if none came for about ``wait_seconds``.

        Raises:
            ConsumerLostError: Make the consumer anew.
            TransientBusError: The connection is lost.
        """
        until = _now() + wait_seconds
        while (left := until - _now()) > 0:
            if self._coming == 0:
                await self._poll()
            found = await self._feed.next(min(left, HEARTBEAT_SECONDS))
            if found is None:
                self._bear_silence()
                continue
            self._heard_at = _now()
            self._proven()
            status = (found.headers or {}).get(Header.STATUS.value)
            if status is None:
                self._coming -= 1
                return found
            self._mind(status, found)
        return None

    async def _poll(self) -> None:
        request = {
            "batch": self._source.batch,
            "expires": int(POLL_SECONDS * _NANOSECONDS),
            "idle_heartbeat": int(HEARTBEAT_SECONDS * _NANOSECONDS),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._source.stream}.{self._source.consumer}"
        async with self._session.call("poll"):
            await self._session.client.publish(
                subject, json.dumps(request).encode(), reply=self._inbox
            )
        self._coming = self._source.batch
        self._heard_at = _now()

    def _bear_silence(self) -> None:
        if _now() - self._heard_at >= MISSED_HEARTBEATS * HEARTBEAT_SECONDS:
            raise self._lost("no heartbeat")

    def _mind(self, status: str, message: Msg) -> None:
        if status == StatusCode.CONTROL_MESSAGE:
            return
        if status in (StatusCode.REQUEST_TIMEOUT, StatusCode.NO_MESSAGES):
            self._coming = 0
            return
        why = (message.headers or {}).get(Header.DESCRIPTION, "")  # keyed by the enum, not by text
        raise self._lost(f"{status} {why}")

    def _lost(self, why: str) -> ConsumerLostError:
        return ConsumerLostError(consumer=self._source.consumer, why=why)


def _now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def pulling(session: Session, source: PulledFrom) -> AsyncIterator[Pull]:
    """A long poll while the context is open."""
    inbox = session.client.new_inbox()
    async with subscribed(session, inbox) as feed:
        yield Pull(session, source, feed, inbox)
