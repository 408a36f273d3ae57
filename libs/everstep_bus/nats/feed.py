"""Messages of one subscription of one session, in a queue with a bound."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import nats.errors
from nats.aio.msg import Msg

from everstep_bus.errors import TransientBusError
from everstep_bus.nats.session import Session

WAITING_MESSAGES: Final = 65_536


class Feed:
    """What arrived and was not read yet; beyond its bound messages are dropped and counted."""

    def __init__(self, session: Session, limit: int) -> None:
        self._session = session
        self._waiting: asyncio.Queue[Msg] = asyncio.Queue(limit)

    async def take(self, message: Msg) -> None:
        """What nats-py calls with each message."""
        try:
            self._waiting.put_nowait(message)
        except asyncio.QueueFull:
            self._session.counts.dropped += 1

    async def next(self, wait_seconds: float | None = None) -> Msg | None:
        """The next message, or None if there is none for so long.

        Raises:
            TransientBusError: The session is lost.
        """
        async with self._session.call("wait for a message", seconds=None):
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_seconds):
                    return await self._waiting.get()
            return None


@asynccontextmanager
async def subscribed(
    session: Session, subject: str, *, queue: str = "", limit: int = WAITING_MESSAGES
) -> AsyncIterator[Feed]:
    """A feed while the context is open; replicas that share ``queue`` share the messages."""
    feed = Feed(session, limit)
    async with session.call(f"subscribe to {subject!r}"):
        subscription = await session.client.subscribe(subject, queue=queue, cb=feed.take)
    try:
        yield feed
    finally:
        with suppress(TransientBusError, nats.errors.Error):
            async with session.call(f"unsubscribe from {subject!r}"):
                await subscription.unsubscribe()
