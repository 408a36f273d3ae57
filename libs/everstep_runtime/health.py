"""Metrics and health over HTTP: /metrics, /healthz (the loop turns), /readyz (it consumes)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from everstep_runtime.clock import Clock
from everstep_runtime.errors import PortUnavailableError

PROOF_SECONDS: Final = 15.0
"""How long a proof of consuming is believed; a cache is compared at least this often (EC-04)."""
_REQUEST_SECONDS: Final = 5.0
_REQUEST_BYTES: Final = 8192
_TEXT: Final = "text/plain; charset=utf-8"

log = structlog.get_logger()


class Readiness:
    """Which subscriptions have lately proven that they deliver; being connected is no proof."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._proven_at: dict[str, float | None] = {"start": None}

    def expect(self, *names: str) -> None:
        """From now on the service is ready only while each of ``names`` is proven."""
        self._proven_at.pop("start", None)
        for name in names:
            self._proven_at.setdefault(name, None)

    def prove(self, name: str) -> None:
        """Something came through ``name``, or a comparison showed that nothing is missing."""
        self._proven_at[name] = self._clock.monotonic()

    def unproven(self) -> tuple[str, ...]:
        """What stands against being ready; empty when ready."""
        oldest = self._clock.monotonic() - PROOF_SECONDS
        return tuple(
            name for name, at in sorted(self._proven_at.items()) if at is None or at < oldest
        )


@asynccontextmanager
async def serve_health(host: str, port: int, readiness: Readiness) -> AsyncIterator[int]:
    """Serve while the context is open; yields the port really used.

    Raises:
        PortUnavailableError: The port is taken, or may not be opened.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await _respond(reader, writer, readiness)
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError) as error:
            log.debug("health request dropped", error=repr(error))
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(connected, host, port, limit=_REQUEST_BYTES)
    except OSError as error:
        why = error.strerror or str(error)
        raise PortUnavailableError(host=host, port=port, why=why) from error
    async with server:
        used: int = server.sockets[0].getsockname()[1]
        log.info("metrics served", host=host, port=used)
        yield used


async def _respond(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, readiness: Readiness
) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    method, _, rest = head.decode("latin-1").partition(" ")
    path = rest.partition(" ")[0].partition("?")[0]
    status, content_type, body = _answer(path, readiness)
    if method not in ("GET", "HEAD"):
        status, content_type, body = HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"GET only\n"
    writer.write(
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
    )
    if method != "HEAD":
        writer.write(body)
    await writer.drain()


def _answer(path: str, readiness: Readiness) -> tuple[HTTPStatus, str, bytes]:
    match path:
        case "/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(REGISTRY)
        case "/healthz":
            return HTTPStatus.OK, _TEXT, b"ok\n"
        case "/readyz":
            unproven = readiness.unproven()
            if not unproven:
                return HTTPStatus.OK, _TEXT, b"ready\n"
            body = f"not proven: {', '.join(unproven)}\n".encode()
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, body
        case _:
            return HTTPStatus.NOT_FOUND, _TEXT, b"see /metrics, /healthz, /readyz\n"
