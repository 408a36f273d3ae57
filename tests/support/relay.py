"""A way to the server that a test can cut: a TCP relay."""

import asyncio
from types import TracebackType
from typing import Self


class Relay:
    """Carries every connection on to the server, until it is cut; then it refuses new ones."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("nats://").rpartition(":")
        self._port = int(port)
        self._carrying: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.url = f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.cut()

    def cut(self) -> None:
        """End all connections and take no more."""
        self._server.close()
        for carrying in self._carrying:
            carrying.cancel()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._carrying.add(task)
        there, back = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(_pump(reader, back), _pump(there, writer))
        except (asyncio.CancelledError, OSError):
            pass  # cut, or one end is gone
        finally:
            writer.transport.abort()
            back.transport.abort()
            self._carrying.discard(task)


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(1 << 16):
        target.write(data)
        await target.drain()
    target.close()
