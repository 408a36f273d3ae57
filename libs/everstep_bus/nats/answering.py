"""Answer queries on one subject, again after each reconnection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from everstep_contract.queries import Query
from nats.aio.msg import Msg

from everstep_bus.background import background
from everstep_bus.delivery import Delivery
from everstep_bus.errors import TransientBusError, UndecodableMessageError
from everstep_bus.nats.feed import Feed, subscribed
from everstep_bus.nats.jetstream import JetStream
from everstep_bus.nats.link import FIRST_BACKOFF_SECONDS
from everstep_bus.nats.session import CALL_SECONDS, Session
from everstep_bus.rpc import Service
from everstep_bus.timing import CONCURRENT_ANSWERS, WAITING_QUERIES

REPLICAS: Final = "replicas"
"""Queue group of those who serve the same subject: one of them answers each query."""

Q = TypeVar("Q", bound=Query)


@dataclass
class _Answering(Generic[Q]):
    """One service's answers to one kind of query."""

    jetstream: JetStream
    service: Service[Q]
    subject: str
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Subscribe and answer, again after each loss, until cancelled."""
        while True:
            session = await self.jetstream.link.session()
            with suppress(TransientBusError):
                async with subscribed(
                    session, self.subject, queue=REPLICAS, limit=WAITING_QUERIES
                ) as feed:
                    await session.round_trip()
                    self.heard.set()
                    more = range(CONCURRENT_ANSWERS - 1)
                    async with background(*(self._serve(session, feed) for _ in more)):
                        await self._serve(session, feed)
            await asyncio.sleep(FIRST_BACKOFF_SECONDS)

    async def _serve(self, session: Session, feed: Feed) -> None:
        while True:
            message = await feed.next()
            if message is None:
                continue
            if not message.reply:
                await self._bury(message, "nobody waits for its reply")
            else:
                headers, payload = await self._reply(message)
                async with session.call(f"answer on {self.subject!r}"):
                    await session.client.publish(message.reply, payload, headers=headers)

    async def _reply(self, message: Msg) -> tuple[dict[str, str], bytes]:
        try:
            return await self.service.reply(message.subject, message.headers, message.data)
        except UndecodableMessageError as error:
            await self._bury(message, str(error))
            return self.service.refusal(str(error))

    async def _bury(self, message: Msg, reason: str) -> None:
        delivery = Delivery(message.subject, message.headers, message.data, 0)
        await self.jetstream.bury(delivery, "rpc", reason)


@asynccontextmanager
async def answering(jetstream: JetStream, service: Service[Q], subject: str) -> AsyncIterator[None]:
    """Answer while the context is open; if there is a connection, from before it is entered."""
    answers = _Answering(jetstream, service, subject)
    async with background(answers.run()):
        if jetstream.link.connected:
            with suppress(TimeoutError):
                async with asyncio.timeout(CALL_SECONDS):
                    await answers.heard.wait()
        yield
