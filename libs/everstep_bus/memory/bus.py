"""`Bus` on the in-memory twin."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from everstep_contract import subjects
from everstep_contract.base import Event, Message, Model
from everstep_contract.envelope import Cause, encode
from everstep_contract.identity import JobKey
from everstep_contract.layout import EVENTS, ORDERS, TELEMETRY, Bucket, Consumer
from everstep_contract.orders import Order
from everstep_contract.queries import Query, Reply
from everstep_contract.telemetry import MemberReport

from everstep_bus.background import background
from everstep_bus.delivery import Delivery, received_of
from everstep_bus.errors import NoReplyError, TransientBusError, UndecodableMessageError
from everstep_bus.interface import Handler, PostedOrder, Proven, Received, unheard
from everstep_bus.memory.broker import MemoryBroker
from everstep_bus.memory.client import MemoryClient
from everstep_bus.memory.consuming import Consuming
from everstep_bus.memory.filters import admits
from everstep_bus.memory.kv import MemoryKeyValue
from everstep_bus.memory.responder import Answer, Asked, Responder
from everstep_bus.orders import OrderView
from everstep_bus.rpc import Service, open_reply
from everstep_bus.stored import Stored
from everstep_bus.timing import CONCURRENT_ANSWERS, ORDER_RESYNC_SECONDS, WATCH_CHECK_SECONDS

M = TypeVar("M", bound=Model)
Q = TypeVar("Q", bound=Query)
R = TypeVar("R", bound=Reply)
X = TypeVar("X", bound=Message)


class MemoryBus:
    """One connection to a `MemoryBroker`; reconnects by itself until it is closed."""

    def __init__(self, broker: MemoryBroker, client_name: str) -> None:
        self._client = MemoryClient(broker, client_name)
        self._dice = broker.dice

    @property
    def connected(self) -> bool:
        return self._client.link.up

    def close(self) -> None:
        """End the connection for good, as the end of its process does."""
        self._client.link.close()

    async def publish(self, event: Event, *, cause: Cause | None = None) -> None:
        headers, payload = encode(event, source=self._client.name, cause=cause)
        await self._client.write(EVENTS, subjects.event_subject(event), headers, payload)

    async def report(self, report: MemberReport) -> None:
        headers, payload = encode(report, source=self._client.name)
        subject = subjects.telemetry_subject(report.job, report.member.incarnation)
        if not self.connected or self._dice.comes_true(self._dice.mischief.lose_report):
            return
        try:
            await self._client.write(TELEMETRY, subject, headers, payload)
        except TransientBusError:
            return  # telemetry is at most once, and nobody waits for its acknowledgement

    async def consume(
        self, consumer: Consumer, handler: Handler, *, proven: Proven = unheard
    ) -> None:
        await Consuming(self._client, consumer, handler, proven).run()

    def kv(self, bucket: Bucket[M]) -> MemoryKeyValue[M]:
        return MemoryKeyValue(self._client, bucket)

    async def post_order(self, order: Order, *, expected: int) -> int:
        headers, payload = encode(order, source=self._client.name)
        subject = subjects.order_subject(order.job)
        return await self._client.write(ORDERS, subject, headers, payload, expected=expected)

    async def last_order(self, job: JobKey) -> PostedOrder | None:
        stored = (await self._client.reach(ORDERS)).last(subjects.order_subject(job))
        if stored is None:
            return None
        return PostedOrder(stored.message(Order), stored.sequence)

    async def orders(self, job: JobKey) -> AsyncIterator[Order]:
        subject, view = subjects.order_subject(job), OrderView()
        follow = self._client.follow(ORDERS, resync_seconds=ORDER_RESYNC_SECONDS)
        async for stored in follow:
            if stored.subject != subject:
                continue
            order = await self._decode_or_bury(stored, Order, "orders")
            if order is not None and view.is_news(order):
                yield order

    async def reports(self) -> AsyncIterator[MemberReport]:
        follow = self._client.follow(TELEMETRY, resync_seconds=WATCH_CHECK_SECONDS)
        async for stored in follow:
            report = await self._decode_or_bury(stored, MemberReport, "reports")
            if report is not None:
                yield report

    async def facts(self, filters: tuple[str, ...]) -> AsyncIterator[Received]:
        follow = self._client.follow(EVENTS, resync_seconds=WATCH_CHECK_SECONDS)
        async for stored in follow:
            if any(admits(wanted, stored.subject) for wanted in filters):
                try:
                    yield received_of(stored.delivery())
                except UndecodableMessageError:
                    continue  # its durable consumers bury it

    async def ask(self, query: Query, reply: type[R], *, timeout_seconds: float) -> R:
        subject = subjects.query_subject(query)
        headers, payload = encode(query, source=self._client.name)
        try:
            async with asyncio.timeout(timeout_seconds):
                answer_headers, answer = await self.request(subject, headers, payload)
        except TimeoutError:
            raise NoReplyError(subject=subject, timeout_seconds=timeout_seconds) from None
        return open_reply(subject, answer_headers, answer, reply)

    async def request(self, subject: str, headers: dict[str, str], payload: bytes) -> Answer:
        """Send any bytes as a query and wait for the answer, without end.

        Raises:
            TransientBusError: Not connected.
        """
        self._client.link.require()
        await asyncio.sleep(self._dice.delay_seconds())
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        serving = self._client.broker.responders.get(subject, [])
        connected = [responder for responder in serving if responder.link.up]
        if connected:
            chosen = connected[self._dice.pick(len(connected))]
            if not chosen.waiting.full():
                chosen.waiting.put_nowait(Asked(subject, headers, payload, answer))
        return await answer

    @asynccontextmanager
    async def answer(
        self, query: type[Q], handler: Callable[[Q], Awaitable[Reply]], *, address: str = ""
    ) -> AsyncIterator[None]:
        service = Service(query, handler, self._client.name)
        responder = Responder(self._client.link)
        serving = self._client.broker.responders.setdefault(
            subjects.served_subject(query, address), []
        )
        serving.append(responder)
        work = [self._serve(service, responder) for _ in range(CONCURRENT_ANSWERS)]
        try:
            async with background(*work):
                yield
        finally:
            serving.remove(responder)

    async def _serve(self, service: Service[Q], responder: Responder) -> None:
        while True:
            asked = await responder.waiting.get()
            try:
                answer = await service.reply(asked.subject, asked.headers, asked.payload)
            except UndecodableMessageError as error:
                answer = service.refusal(str(error))
                delivery = Delivery(asked.subject, asked.headers, asked.payload, 0)
                await self._client.bury(delivery, "rpc", str(error))
            await asyncio.sleep(self._dice.delay_seconds())
            lost = self._dice.comes_true(self._dice.mischief.lose_reply)
            if responder.link.up and not lost and not asked.answer.done():
                asked.answer.set_result(answer)

    async def _decode_or_bury(self, stored: Stored, expected: type[X], reader: str) -> X | None:
        try:
            return stored.message(expected)
        except UndecodableMessageError as error:
            await self._client.bury(stored.delivery(), reader, str(error))
            return None
