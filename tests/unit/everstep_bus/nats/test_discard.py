"""Closing a client at once, in whatever state its connection is."""

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from types import SimpleNamespace
from typing import Any

from everstep_bus.nats.session import discard


async def test_a_tls_connection_that_was_closed_twice_is_discarded_all_the_same() -> None:
    loop, client_closed = asyncio.get_running_loop(), asyncio.Event()
    protocol: Any = SSLProtocol(
        loop,
        asyncio.Protocol(),
        ssl.create_default_context(),
        loop.create_future(),
        call_connection_made=False,
    )
    transport = protocol._get_app_transport()
    for _ in range(2):  # as a lost server and the client's own end of the connection do
        transport.close()

    async def close() -> None:
        client_closed.set()

    client: Any = SimpleNamespace(
        _flush_queue=asyncio.Queue(),
        _transport=SimpleNamespace(_io_writer=SimpleNamespace(transport=transport)),
        _subs={},
        close=close,
    )
    await discard(client)
    assert client_closed.is_set()
