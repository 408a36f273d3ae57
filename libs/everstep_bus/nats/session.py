"""One TCP connection to one server, used until it is lost and never again.

A client of nats-py that reconnects keeps what it buffered and sends it late, replays half of its
subscriptions and can end up closed for ever. So none of ours reconnects: each loss ends its client
with everything in it, and `everstep_bus.nats.link` makes a new one. What nats-py offers no public
way for is in this file alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext

from everstep_bus.cancelling import cancellable
from everstep_bus.counts import BusCounts
from everstep_bus.errors import TransientBusError

CALL_SECONDS: Final = 2.0
"""How long any request to the server may take."""
CLOSE_SECONDS: Final = 1.0
STREAM_NOT_FOUND: Final = 10059


class MissingStreamError(TransientBusError):
    """There is no such stream, or none that would answer; whoever may makes it anew."""


class Session:
    """A connected client. Whoever uses it hears `TransientBusError` once it is lost."""

    def __init__(self, client: Client, counts: BusCounts) -> None:
        self.client = client
        self.counts = counts
        self.jetstream: JetStreamContext = client.jetstream(timeout=CALL_SECONDS)
        self._lost = asyncio.Event()
        self._calls: set[asyncio.Timeout] = set()
        reading = client._reading_task
        assert reading is not None  # a connected client reads
        reading.add_done_callback(self._lose)

    @property
    def alive(self) -> bool:
        """Whether nothing is known against it."""
        return not self._lost.is_set()

    async def wait_lost(self) -> None:
        """Wait for the end: of every way in which nats-py loses a connection, reading ends."""
        await self._lost.wait()

    @asynccontextmanager
    async def call(self, what: str, seconds: float | None = CALL_SECONDS) -> AsyncIterator[None]:
        """Bound what is awaited inside, end it when the connection is lost, translate errors.

        Raises:
            MissingStreamError: The stream is not there.
            TransientBusError: Anything else; unknown whether it had its effect.
        """
        if not self.alive:
            raise TransientBusError(f"not connected: {what}")
        try:
            with cancellable():
                async with asyncio.timeout(seconds) as bound:
                    self._calls.add(bound)
                    try:
                        yield
                    finally:
                        self._calls.discard(bound)
        except (
            nats.js.errors.NoStreamResponseError,
            nats.js.errors.ServiceUnavailableError,
            nats.errors.NoRespondersError,  # what a direct read of a missing stream meets
        ):
            raise MissingStreamError(f"no stream answers: {what}") from None
        except nats.js.errors.APIError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise MissingStreamError(f"no such stream: {what}") from None
            raise TransientBusError(f"{what}: {error.description}") from error
        except (nats.errors.Error, OSError) as error:
            reason = "connection lost" if not self.alive else str(error) or "no answer in time"
            raise TransientBusError(f"{what}: {reason}") from error

    async def round_trip(self) -> None:
        """Wait until the server has processed all that was sent.

        A wait for a pong must not be cancelled: nats-py stops reading when the pong then comes.
        """
        flushing = asyncio.ensure_future(self.client.flush())
        flushing.add_done_callback(_retrieve)
        async with self.call("round trip"):
            await asyncio.shield(flushing)

    async def end(self) -> None:
        """Say goodbye after what was sent has left; for a client that is still connected."""
        with suppress(TransientBusError):
            await self.round_trip()
        await discard(self.client)

    def _lose(self, _: Any) -> None:
        self._lost.set()
        for bound in self._calls:
            if not bound.expired():  # one that runs out just now ends by itself
                bound.reschedule(asyncio.get_running_loop().time())


def is_encrypted(client: Client) -> bool:
    """Whether the server asked for TLS; where it does not, nats-py goes on without it."""
    return bool(client._server_info.get("tls_required"))


async def discard(client: Client) -> None:
    """Close the client's socket at once, so that nothing it still holds is sent."""
    if client._flush_queue is None:
        return  # it never got as far as opening one
    writer = getattr(client._transport, "_io_writer", None)
    if writer is not None:
        with suppress(AttributeError):  # of TLS that was closed twice: older asyncio let go of it
            writer.transport.abort()
    with cancellable(), suppress(nats.errors.Error, OSError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()
    for subscription in client._subs.values():
        subscription._stop_processing()


def _retrieve(flushing: "asyncio.Future[None]") -> None:
    if not flushing.cancelled():
        flushing.exception()
