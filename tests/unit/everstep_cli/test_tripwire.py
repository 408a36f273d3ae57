"""The relay that ends a service at a chosen sentence."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from everstep_cli.drill.tripwire import Tripwire, Wire

BOUND_SECONDS = 5
SPOKEN = (
    b"CONNECT {}\r\nPUB a.b 3\r\nxyz\r\nHPUB x.orders.y inbox 2 4\r\nABcd\r\nPUB later 0\r\n\r\n"
)
BEFORE, FROM_ORDER = SPOKEN[: SPOKEN.index(b"HPUB")], SPOKEN[: SPOKEN.index(b"PUB later")]


@pytest.fixture
async def heard() -> AsyncIterator[tuple[int, asyncio.Queue[bytes]]]:
    """A far end that keeps everything it hears on a connection until its end: port and queue."""
    everything: asyncio.Queue[bytes] = asyncio.Queue()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = b""
        try:
            while chunk := await reader.read(1000):
                text += chunk
        except ConnectionError:
            pass
        await everything.put(text)
        writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], everything


async def speak(wire: Tripwire, text: bytes) -> None:
    _, writer = await asyncio.open_connection(*wire.url.removeprefix("nats://").split(":"))
    writer.write(text)
    writer.write_eof()


async def test_an_unarmed_wire_passes_everything_on(
    heard: tuple[int, asyncio.Queue[bytes]],
) -> None:
    port, everything = heard
    async with asyncio.timeout(BOUND_SECONDS), Tripwire("127.0.0.1", port) as wire:
        await speak(wire, SPOKEN)
        assert await everything.get() == SPOKEN


@pytest.mark.parametrize(("said", "passed"), [(False, BEFORE), (True, FROM_ORDER)])
async def test_an_armed_wire_ends_the_conversation_at_the_sentence(
    heard: tuple[int, asyncio.Queue[bytes]], said: bool, passed: bytes
) -> None:
    port, everything = heard
    ended = []
    async with asyncio.timeout(BOUND_SECONDS), Tripwire("127.0.0.1", port) as wire:
        wire.arm(Wire(".orders.", said=said), lambda: ended.append(True))
        await speak(wire, SPOKEN)
        await wire.tripped.wait()
        assert ended == [True]
        assert await everything.get() == passed


async def test_a_tripped_wire_relays_again_for_the_next_life_of_the_service(
    heard: tuple[int, asyncio.Queue[bytes]],
) -> None:
    port, everything = heard
    async with asyncio.timeout(BOUND_SECONDS), Tripwire("127.0.0.1", port) as wire:
        wire.arm(Wire(".orders.", said=False), lambda: None)
        await speak(wire, SPOKEN)
        await everything.get()
        await speak(wire, SPOKEN)
        assert await everything.get() == SPOKEN
