"""`Bus` on NATS JetStream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeVar

from everstep_contract import subjects
from everstep_contract.base import Event, Message, Model
from everstep_contract.clients import parse_client_name
from everstep_contract.envelope import Cause, encode
from everstep_contract.errors import InvalidNameError
from everstep_contract.identity import JobKey
from everstep_contract.layout import EVENTS, ORDERS, TELEMETRY, Bucket, Consumer
from everstep_contract.orders import Order
from everstep_contract.queries import Query, Reply
from everstep_contract.roles import grant_of, inbox_prefix
from everstep_contract.telemetry import MemberReport
from nats.aio.msg import Msg

from everstep_bus.counts import BusCounts
from everstep_bus.delivery import received_of
from everstep_bus.errors import NoReplyError, TransientBusError, UndecodableMessageError
from everstep_bus.interface import Handler, PostedOrder, Proven, Received, unheard
from everstep_bus.nats.answering import answering
from everstep_bus.nats.consuming import Consuming
from everstep_bus.nats.feed import subscribed
from everstep_bus.nats.following import history, newest
from everstep_bus.nats.jetstream import JetStream
from everstep_bus.nats.kv import NatsKeyValue
from everstep_bus.nats.link import Address, Link, open_link
from everstep_bus.nats.session import Session
from everstep_bus.orders import OrderView
from everstep_bus.rpc import Service, open_reply
from everstep_bus.stored import Stored
from everstep_bus.timing import ORDER_RESYNC_SECONDS, WATCH_CHECK_SECONDS

MAX_UNSENT_BYTES: Final = 1 << 20
"""Telemetry is dropped while so much waits for a socket that takes nothing."""

M = TypeVar("M", bound=Model)
Q = TypeVar("Q", bound=Query)
R = TypeVar("R", bound=Reply)
X = TypeVar("X", bound=Message)


def utc_now() -> datetime:
    """The stamp of what this process writes itself."""
    return datetime.now(UTC)


class NatsBus:
    """`Bus` over one link."""

    def __init__(self, link: Link, jetstream: JetStream) -> None:
        self._link = link
        self._jetstream = jetstream
        self._source = link.address.name

    @property
    def connected(self) -> bool:
        return self._link.connected

    @property
    def counts(self) -> BusCounts:
        """What this connection has been through."""
        return self._link.counts

    async def publish(self, event: Event, *, cause: Cause | None = None) -> None:
        headers, payload = encode(event, source=self._source, cause=cause)
        await self._jetstream.publish(subjects.event_subject(event), headers, payload)

    async def report(self, report: MemberReport) -> None:
        headers, payload = encode(report, source=self._source)
        subject = subjects.telemetry_subject(report.job, report.member.incarnation)
        try:
            session = self._link.require()
            if session.client.pending_data_size > MAX_UNSENT_BYTES:
                raise TransientBusError("the socket takes nothing")
            async with session.call("report"):
                await session.client.publish(subject, payload, headers=headers)
                await asyncio.sleep(0)  # or many reports would keep the loop from answering pings
        except TransientBusError:
            self.counts.dropped += 1

    async def consume(
        self, consumer: Consumer, handler: Handler, *, proven: Proven = unheard
    ) -> None:
        await Consuming(self._jetstream, consumer, handler, proven).run()

    def kv(self, bucket: Bucket[M]) -> NatsKeyValue[M]:
        return NatsKeyValue(self._jetstream, bucket)

    async def post_order(self, order: Order, *, expected: int) -> int:
        headers, payload = encode(order, source=self._source)
        return await self._jetstream.publish_behind(
            subjects.order_subject(order.job), headers, payload, expected=expected
        )

    async def last_order(self, job: JobKey) -> PostedOrder | None:
        stored = await self._last_order(job)
        return PostedOrder(stored.message(Order), stored.sequence) if stored else None

    async def orders(self, job: JobKey) -> AsyncIterator[Order]:
        view, buried = OrderView(), 0
        while True:
            session = await self._link.session()
            try:
                async for stored in self._posted(session, job):
                    order = None
                    if stored.sequence != buried:
                        order = await self._decode_or_bury(stored, Order, "orders")
                        buried = 0 if order else stored.sequence
                    if order is not None and view.is_news(order):
                        yield order
            except TransientBusError:
                await asyncio.sleep(ORDER_RESYNC_SECONDS / 10)

    async def reports(self) -> AsyncIterator[MemberReport]:
        async for stored in newest(self._jetstream, TELEMETRY, check_seconds=WATCH_CHECK_SECONDS):
            report = await self._decode_or_bury(stored, MemberReport, "reports")
            if report is not None:
                yield report

    async def facts(self, filters: tuple[str, ...]) -> AsyncIterator[Received]:
        async for stored in history(self._jetstream, EVENTS, filters):
            try:
                received = received_of(stored.delivery())
            except UndecodableMessageError:
                continue  # its durable consumers bury it
            yield received

    async def ask(self, query: Query, reply: type[R], *, timeout_seconds: float) -> R:
        subject = subjects.query_subject(query)
        headers, payload = encode(query, source=self._source)
        session = self._link.require()
        try:
            async with session.call(f"ask {subject!r}", timeout_seconds):
                answer = await session.client.request(
                    subject, payload, timeout=timeout_seconds, headers=headers
                )
        except TransientBusError as error:
            if session.alive:
                raise NoReplyError(subject=subject, timeout_seconds=timeout_seconds) from error
            raise
        return open_reply(subject, answer.headers, answer.data, reply)

    @asynccontextmanager
    async def answer(
        self, query: type[Q], handler: Callable[[Q], Awaitable[Reply]], *, address: str = ""
    ) -> AsyncIterator[None]:
        service = Service(query, handler, self._source)
        subject = subjects.served_subject(query, address)
        async with answering(self._jetstream, service, subject):
            yield

    async def _last_order(self, job: JobKey) -> Stored | None:
        return await self._jetstream.last(ORDERS, subjects.order_subject(job), direct=True)

    async def _posted(self, session: Session, job: JobKey) -> AsyncIterator[Stored]:
        """What the stream repeats, and what it holds whenever nothing came for a second."""
        async with subscribed(session, subjects.posted_order_subject(job)) as feed:
            while True:
                last = await self._last_order(job)
                if last is not None:
                    yield last
                resync_at = asyncio.get_running_loop().time() + ORDER_RESYNC_SECONDS
                while (left := resync_at - asyncio.get_running_loop().time()) > 0:
                    message = await feed.next(left)
                    if message is not None:
                        yield _repeated(message, job)

    async def _decode_or_bury(self, stored: Stored, expected: type[X], reader: str) -> X | None:
        try:
            return stored.message(expected)
        except UndecodableMessageError as error:
            await self._jetstream.bury(stored.delivery(), reader, str(error))
            return None


@asynccontextmanager
async def connect(
    urls: tuple[str, ...],
    client_name: str,
    *,
    seed_path: Path | None = None,
    on_closed: Callable[[], None] | None = None,
) -> AsyncIterator[NatsBus]:
    """A bus that is connected when the context is entered, and stays so until it is left.

    Args:
        urls: Servers, e.g. ``nats://127.0.0.1:4222``; any of them will do.
        client_name: By `everstep_contract.clients`; decides the role's grant and inbox.
        seed_path: File with the role's nkey seed; None where the server wants none.
        on_closed: Called if the connection will never come back; the process should end then.

    Raises:
        AccessDeniedError: The server does not know the credentials.
        InvalidNameError: The name is none of Everstep's.
    """
    client = parse_client_name(client_name)
    if client is None:
        raise InvalidNameError(client_name, "not the name of a client of Everstep")
    address = Address(urls, client_name, inbox_prefix(client), seed_path)
    async with open_link(address, on_closed) as link:
        jetstream = JetStream(link, grant_of(client), utc_now)
        with suppress(TransientBusError):  # then the first call that misses a stream does it
            await jetstream.provision()
        yield NatsBus(link, jetstream)


def _repeated(message: Msg, job: JobKey) -> Stored:
    headers = message.headers or {}
    sequence = int(headers.get("Nats-Sequence", 0))
    return Stored(sequence, subjects.order_subject(job), headers, message.data)
