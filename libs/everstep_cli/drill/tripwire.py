"""A relay between one service and nats-server that can end the service at a chosen sentence.

That is how a drill lets a service die exactly between its decision and its publication, without a
hook in the service: the relay reads what the service says, as NATS protocol, and knows.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

MAX_LINE_BYTES: Final = 64 * 1024
CHUNK_BYTES: Final = 64 * 1024


@dataclass(frozen=True)
class Wire:
    """What trips: the first publication whose subject has ``part``; said nevertheless or not."""

    part: str
    said: bool


class Tripwire:
    """Relays connections from ``url`` to nats-server; `arm` makes it cut them all, once."""

    def __init__(self, nats_host: str, nats_port: int) -> None:
        self._nats = nats_host, nats_port
        self._wire: Wire | None = None
        self._trip: Callable[[], None] = lambda: None
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.tripped = asyncio.Event()

    @property
    def url(self) -> str:
        """Where the service connects."""
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Tripwire":
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0, limit=MAX_LINE_BYTES)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self._cut()

    def arm(self, wire: Wire, trip: Callable[[], None]) -> None:
        """Call ``trip`` and cut every connection at the next sentence that matches ``wire``."""
        self._wire, self._trip = wire, trip

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            far_reader, far_writer = await asyncio.open_connection(*self._nats)
            self._writers |= {writer, far_writer}
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._listen(reader, far_writer))
                    group.create_task(_copy(far_reader, writer))
            except* (OSError, asyncio.IncompleteReadError):
                pass
            finally:
                for end in (writer, far_writer):
                    self._writers.discard(end)
                    end.close()

    async def _listen(self, reader: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        async for subject, sentence in sentences(reader):
            wire = self._wire if self._wire and self._wire.part in subject else None
            if wire is None or wire.said:
                far.write(sentence)
                await far.drain()
            if wire is not None:
                self._wire = None
                self._trip()
                self.tripped.set()
                self._cut()
                break
        raise asyncio.IncompleteReadError(b"", None)

    def _cut(self) -> None:
        for writer in self._writers:
            writer.close()


async def sentences(reader: asyncio.StreamReader) -> AsyncIterator[tuple[str, bytes]]:
    """What a NATS client says: of each sentence its subject, if it publishes, and its bytes."""
    while line := await reader.readline():
        words = line.split()
        if words and words[0].upper() in (b"PUB", b"HPUB"):
            body = await reader.readexactly(int(words[-1]) + len(b"\r\n"))
            yield words[1].decode(), line + body
        else:
            yield "", line


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    raise asyncio.IncompleteReadError(b"", None)
