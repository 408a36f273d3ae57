"""The bus as everybody sees it. NATS and the in-memory twin implement it and pass one suite."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from everstep_contract.base import Event, Message, Model
from everstep_contract.envelope import Cause
from everstep_contract.identity import JobKey
from everstep_contract.layout import Bucket, Consumer
from everstep_contract.orders import Order
from everstep_contract.queries import Query, Reply
from everstep_contract.telemetry import MemberReport

M = TypeVar("M", bound=Model)
Q = TypeVar("Q", bound=Query)
R = TypeVar("R", bound=Reply)


@dataclass(frozen=True)
class Received:
    """A message of a durable consumer, on its ``attempt``-th delivery (from 1)."""

    message: Message
    subject: str
    sequence: int
    attempt: int
    cause: Cause


Handler = Callable[[Received], Awaitable[None]]
"""Returns: the message is acknowledged. `TransientBusError`: redelivered. Anything else: DEAD."""

Proven = Callable[[], None]
"""Called every few seconds while a subscription proves that it delivers; connected is no proof."""


def unheard() -> None:
    """A proof that nobody asked for."""


@dataclass(frozen=True)
class Entry(Generic[M]):
    """A value and the revision to compare with; ``value`` is None where the key was deleted."""

    key: str
    revision: int
    value: M | None


@dataclass(frozen=True)
class PostedOrder:
    """An order and its stream sequence, to be expected by the next one."""

    order: Order
    sequence: int


class KeyValue(Protocol[M]):
    """A bucket of values of one model. Keys are encoded names (`contract.names`)."""

    async def get(self, key: str) -> Entry[M] | None:
        """The newest value by a quorum read, or None if there is none (or it was deleted)."""
        ...

    async def put(self, key: str, value: M, *, expected: int) -> int:
        """Compare-and-set; ``expected`` 0 creates. Returns the new revision.

        Raises:
            RevisionMismatchError: It is at another revision: read again, decide again.
            TransientBusError: Unknown whether it was written: read back (R5).
        """
        ...

    async def delete(self, key: str, *, expected: int) -> None:
        """Delete if still at ``expected``; raises like `put`."""
        ...

    async def entries(self) -> tuple[Entry[M], ...]:
        """All values, in key order."""
        ...

    def watch(self, *, proven: Proven = unheard) -> AsyncIterator[Entry[M]]:
        """All values, then every change, in order per key, until closed.

        Survives reconnects, restarts and the loss of its consumer: it compares itself with the
        bucket at least every `WATCH_CHECK_SECONDS` and after each reconnect, and yields what it
        missed. A revision lower than one already yielded is never yielded, except after the
        bucket or its newest writes were lost, when what it holds now is yielded anew. A value
        that cannot be decoded goes to DEAD.
        """
        ...


class Bus(Protocol):
    """One connection's view of the bus, under one role's credentials."""

    @property
    def connected(self) -> bool:
        """Whether the connection is up right now; says nothing about consuming."""
        ...

    async def publish(self, event: Event, *, cause: Cause | None = None) -> None:
        """Publish a fact and wait for the stream's acknowledgement; a repeat is harmless.

        Raises:
            TransientBusError: Not acknowledged in time; publish the same event again.
        """
        ...

    async def report(self, report: MemberReport) -> None:
        """Publish telemetry, at most once: dropped, never kept, while the bus is away."""
        ...

    async def consume(
        self, consumer: Consumer, handler: Handler, *, proven: Proven = unheard
    ) -> None:
        """Handle a durable consumer's messages one by one until cancelled.

        Acknowledges after the handler; keeps extending the acknowledgement deadline while it
        runs; re-establishes itself after anything; sends what cannot be decoded, is rejected, or
        exhausts its deliveries to DEAD with the reason.
        """
        ...

    def kv(self, bucket: Bucket[M]) -> KeyValue[M]:
        """The bucket."""
        ...

    async def post_order(self, order: Order, *, expected: int) -> int:
        """Publish an order if the job's last one has sequence ``expected`` (0: none); R8.

        Raises:
            RevisionMismatchError: Another one is last.
            TransientBusError: Unknown whether it was posted: read `last_order`.
        """
        ...

    async def last_order(self, job: JobKey) -> PostedOrder | None:
        """The job's newest order, by a read from the stream."""
        ...

    def orders(self, job: JobKey) -> AsyncIterator[Order]:
        """The newest order, then each newer one, until closed; resynced like a watch."""
        ...

    def reports(self) -> AsyncIterator[MemberReport]:
        """Telemetry of all jobs as it comes, the last of each member first; may skip."""
        ...

    def facts(self, filters: tuple[str, ...]) -> AsyncIterator[Received]:
        """Stored facts that a filter admits, then each new one, until closed; for people and tools.

        Nothing is acknowledged and nothing kept: a new iteration starts from the first again.
        """
        ...

    async def ask(self, query: Query, reply: type[R], *, timeout_seconds: float) -> R:
        """Ask and wait for the answer.

        Raises:
            NoReplyError: None came in time.
            QueryRefusedError: The service said no.
        """
        ...

    def answer(
        self, query: type[Q], handler: Callable[[Q], Awaitable[Reply]], *, address: str = ""
    ) -> AbstractAsyncContextManager[None]:
        """Answer queries while the context is open. ``address`` as in `Query.address`.

        Several at once. A handler is cancelled when the connection is lost: nobody would hear it.
        """
        ...


@dataclass(frozen=True)
class Connection:
    """A client's connection to one server; keyed by (server, client id), see R10."""

    server_id: str
    client_id: int
    name: str


@dataclass(frozen=True)
class Disconnected:
    """A server's advisory that a connection ended, e.g. reason 'Stale Connection'."""

    connection: Connection
    reason: str


@dataclass(frozen=True)
class Connected:
    """A server's advisory that a client connected."""

    connection: Connection


class ServerEvents(Protocol):
    """The system account's view of the servers: the failure detector (DESIGN 5)."""

    @property
    def connected(self) -> bool:
        """Whether the system connection is up right now."""
        ...

    def advisories(self) -> AsyncIterator[Connected | Disconnected]:
        """Connects and disconnects of all clients as they happen; not stored, may be missed."""
        ...

    async def connections(self) -> tuple[Connection, ...]:
        """Pages through the connection lists of all servers that answer.

        Raises:
            TransientBusError: No server answered.
        """
        ...
