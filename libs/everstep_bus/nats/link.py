"""A connection that comes back for ever: a new client, with jittered backoff, after each loss."""

import asyncio
import random
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import nats.errors
import nkeys  # type: ignore[import-untyped]  # it has no stubs
import structlog
from nats.aio.client import Client

from everstep_bus.background import background
from everstep_bus.cancelling import cancellable
from everstep_bus.counts import BusCounts
from everstep_bus.errors import AccessDeniedError, NoSeedError, TransientBusError
from everstep_bus.nats.session import Session, discard, is_encrypted

CONNECT_SECONDS: Final = 3.0
"""For TCP, TLS and the server's hello together."""
PING_SECONDS: Final = 1
UNANSWERED_PINGS: Final = 2
"""A client that has heard nothing for about 3 s gives its connection up."""
FIRST_BACKOFF_SECONDS: Final = 0.05
LONGEST_BACKOFF_SECONDS: Final = 2.0
MOST_DOUBLINGS: Final = 16
AUTHORITY: Final = "ca.crt"
"""A file of this name beside the seed says whose certificates are trusted; else the system's."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Address:
    """Where to connect, and as whom."""

    urls: tuple[str, ...]
    name: str
    inbox_prefix: str
    seed_path: Path | None = None
    """File with the seed of an nkey; read again at each connection. None: no authentication."""


class Link:
    """One logical connection. `open_link` keeps it alive."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.counts = BusCounts()
        self._session: Session | None = None
        self._found = asyncio.Event()
        self._told = ""
        self._heard: Exception | None = None

    @property
    def connected(self) -> bool:
        """Whether there is a connection right now."""
        return self._session is not None and self._session.alive

    def require(self) -> Session:
        """The connection.

        Raises:
            TransientBusError: There is none right now.
        """
        if self._session is None or not self._session.alive:
            raise TransientBusError(f"{self.address.name} is not connected")
        return self._session

    async def session(self) -> Session:
        """Wait for the connection."""
        while self._session is None or not self._session.alive:
            self._found.clear()
            await self._found.wait()
        return self._session

    async def keep(self) -> None:
        """Connect, and connect again after each loss, until cancelled.

        Raises:
            AccessDeniedError: The server refused these credentials at the very first connection.
        """
        attempt = 0
        while True:
            try:
                session = await self._connect(attempt)
            except (nats.errors.Error, OSError) as error:
                self._note_failure(self._heard or error)
                await asyncio.sleep(backoff_seconds(attempt))
                attempt += 1
                continue
            attempt = 0
            self._told, self._heard = "", None
            self.counts.connections += 1
            await self._use(session)

    async def _connect(self, attempt: int) -> Session:
        client = Client()
        urls = self.address.urls
        try:
            with cancellable():
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._connect_client(client, urls[attempt % len(urls)])
        except BaseException:
            await discard(client)
            raise
        return Session(client, self.counts)

    async def _connect_client(self, client: Client, url: str) -> None:
        seed_path = self.address.seed_path
        try:
            await client.connect(
                [url],
                name=self.address.name,
                inbox_prefix=self.address.inbox_prefix,
                nkeys_seed=str(seed_path) if seed_path else None,
                tls=trust(seed_path),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                ping_interval=PING_SECONDS,
                max_outstanding_pings=UNANSWERED_PINGS,
                error_cb=self._hear,
            )
        except nkeys.NkeysError as error:
            raise NoSeedError(client=self.address.name, path=str(seed_path)) from error
        if urlsplit(url).scheme == "tls" and not is_encrypted(client):
            raise OSError(f"{urlsplit(url).hostname} does not speak TLS")

    async def _use(self, session: Session) -> None:
        self._session = session
        self._found.set()
        log.info("bus connected", client=self.address.name)
        try:
            await session.wait_lost()
            log.warning("bus connection lost", client=self.address.name)
            await discard(session.client)
        except asyncio.CancelledError:
            await session.end()
            raise
        finally:
            self._session = None

    def _note_failure(self, error: Exception) -> None:
        """Count it, log why when that changes, and give up on credentials that never worked."""
        self.counts.failures += 1
        why = str(error) or type(error).__name__
        if "authorization violation" in why.lower() and self.counts.connections == 0:
            raise AccessDeniedError(client=self.address.name) from error
        if why != self._told:
            log.warning("bus not reached", client=self.address.name, why=why)
        self._told = why

    async def _hear(self, error: Exception) -> None:
        """What nats-py tells aside: refused permissions, and messages dropped for slowness."""
        if isinstance(error, nats.errors.SlowConsumerError):
            self.counts.dropped += 1
        elif "permissions violation" in str(error).lower():
            self.counts.permission_violations += 1
            log.error("bus permission refused", why=str(error))
        else:
            self._heard = error


def trust(seed_path: Path | None) -> ssl.SSLContext | None:
    """Whom to believe that it is the server; None: nobody but those that the system knows."""
    authority = seed_path.with_name(AUTHORITY) if seed_path else None
    if authority is None or not authority.exists():
        return None
    return ssl.create_default_context(cafile=authority)


def backoff_seconds(attempt: int) -> float:
    """How long to wait after the ``attempt``-th failure in a row (from 0); jittered by a half."""
    doubled = FIRST_BACKOFF_SECONDS * float(1 << min(attempt, MOST_DOUBLINGS))
    jitter = random.uniform(0.5, 1.5)  # noqa: S311  # no secret depends on it
    return min(doubled, LONGEST_BACKOFF_SECONDS) * jitter


@asynccontextmanager
async def open_link(
    address: Address, on_closed: Callable[[], None] | None = None
) -> AsyncIterator[Link]:
    """A link that is connected when the context is entered, and kept until it is left.

    ``on_closed`` is called if keeping it ends for a reason other than leaving the context: then
    nothing will ever reconnect, and the process should end.

    Raises:
        AccessDeniedError: The credentials are no seed, or the server does not know them.
    """
    link = Link(address)

    async def keep() -> None:
        try:
            await link.keep()
        except Exception:
            if on_closed is not None:
                on_closed()
            raise

    async with background(keep()):
        await link.session()
        yield link
