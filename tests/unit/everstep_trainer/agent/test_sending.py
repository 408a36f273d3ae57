"""Snapshots cross the network whole or not at all, no faster than they may, and hurt nobody."""

import asyncio
import os
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from types import SimpleNamespace

import pytest
import xxhash
from everstep_checkpoint.errors import OverwrittenError
from everstep_checkpoint.slots import SlotPair, Word
from everstep_contract.identity import Endpoint
from everstep_trainer.agent import sending
from everstep_trainer.agent.peer import MAX_LINE_BYTES, PeerPort, PeerRequest, offer_shard
from everstep_trainer.agent.replicas import Incoming, Offer, Replicas
from everstep_trainer.agent.sending import DIGEST_BYTES, PIECE_BYTES, Held, Pace, pieces_of, take_in
from hypothesis import given
from hypothesis import strategies as st

HERE = "127.0.0.1"
BYTES = 2 * PIECE_BYTES + 5
BODY = random.Random(1).randbytes(BYTES)
FAST = Pace(1 << 40)
OFFER = Offer(origin="a", kind="state", generation=1, step=7, shard=1, shards=2, total_bytes=BYTES)


class Peer:
    """An agent that keeps what it is offered, and its peer port."""

    incarnation = "peer.1"
    order = None

    def __init__(self) -> None:
        self.replicas = Replicas(1 << 30)
        self.port = PeerPort(self)

    def hear_peer(self, _order: object, _host: str) -> None:
        pytest.fail("nobody sends an order here")

    def begin_to_keep(self, offer: Offer, _host: str) -> Incoming | str:
        return self.replicas.begin(offer)

    def end_to_keep(self, incoming: Incoming) -> None:
        self.replicas.end(incoming)

    def content(self, step: int) -> bytes | None:
        """Of the copy of this step; None if there is none."""
        for snapshot in self.replicas.snapshots():
            found = self.replicas.find(snapshot)
            if snapshot.step == step and found:
                buffer = memoryview(bytearray(PIECE_BYTES))
                return b"".join(bytes(piece) for piece in found[0].read(*found[1:], buffer))
        return None

    async def still_keeps(self, endpoint: Endpoint) -> bool:
        """Whether it takes a copy in as if nothing had happened."""
        held = snapshot(9)
        offered = OFFER.model_copy(update={"step": 9})
        refusal = await offer_shard(endpoint, offered, pieces_of(held, FAST), source=HERE)
        return refusal == "" and self.content(9) == BODY


@pytest.fixture
async def peer() -> AsyncIterator[SimpleNamespace]:
    """With where it listens as ``endpoint``, and what it is as ``agent``."""
    agent = Peer()
    limit = MAX_LINE_BYTES
    async with await asyncio.start_server(agent.port.serve, HERE, 0, limit=limit) as server:
        port = server.sockets[0].getsockname()[1]
        yield SimpleNamespace(agent=agent, endpoint=Endpoint(host=HERE, port=port))
    agent.replicas.close()


def snapshot(step: int = 7) -> Held:
    """One shard of three pieces."""
    pair = SlotPair.create("test")
    pair.resize(BYTES)
    pair.finish(0, Word(0, "ready", 1, step, 1, 2, BYTES))
    os.pwrite(pair.fd, BODY, pair.place(0))
    return Held(pair, 0, pair.word(0))


async def wire(held: Held) -> list[bytes]:
    return [piece async for piece in pieces_of(held, FAST)]


async def replay(pieces: list[bytes]) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_snapshot_arrives_as_it_is_and_its_slot_is_held_meanwhile(
    peer: SimpleNamespace,
) -> None:
    held = snapshot()
    held.pair.finish(1, Word(0, "ready", 1, 8, 1, 2, BYTES))  # the newest: the other slot is free
    refusal = await offer_shard(peer.endpoint, OFFER, pieces_of(held, FAST), source=HERE)
    assert refusal == ""
    assert peer.agent.content(7) == BODY
    assert held.pair.begin() is None
    held.let_go()
    assert held.pair.begin() == 0


@pytest.mark.parametrize("at", [0, DIGEST_BYTES, PIECE_BYTES, BYTES, BYTES + 4 * DIGEST_BYTES - 1])
async def test_bytes_that_changed_on_the_way_are_never_acknowledged(
    peer: SimpleNamespace, at: int
) -> None:
    assert await peer.agent.still_keeps(peer.endpoint)
    spoilt = bytearray(b"".join(await wire(snapshot())))
    spoilt[at] ^= 1
    refusal = await offer_shard(peer.endpoint, OFFER, replay([bytes(spoilt)]), source=HERE)
    assert refusal.endswith("is not what was sent")
    assert peer.agent.content(7) is None
    assert peer.agent.content(9) == BODY


async def test_pieces_in_another_order_are_never_acknowledged(peer: SimpleNamespace) -> None:
    first, second, *rest = await wire(snapshot())
    swapped = replay([second, first, *rest])
    refusal = await offer_shard(peer.endpoint, OFFER, swapped, source=HERE)
    assert refusal == "the whole is not what was sent"


async def test_a_snapshot_that_is_written_over_while_it_is_sent_is_not_kept(
    peer: SimpleNamespace,
) -> None:
    held = snapshot()
    held.pair.forget(0)
    with pytest.raises(OverwrittenError):
        await offer_shard(peer.endpoint, OFFER, pieces_of(held, FAST), source=HERE)
    assert peer.agent.content(7) is None
    assert await peer.agent.still_keeps(peer.endpoint)


async def test_what_is_refused_is_not_sent(peer: SimpleNamespace) -> None:
    peer.agent.replicas.close()
    pieces = pieces_of(snapshot(), FAST)
    refusal = await offer_shard(peer.endpoint, OFFER, pieces, source=HERE)
    assert refusal == "it keeps nothing more"
    assert await anext(pieces)


async def test_a_sender_that_is_too_slow_is_given_up(
    peer: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "PIECE_SECONDS", 0.05)

    refusal = await offer_shard(peer.endpoint, OFFER, replay([BODY[:9]]), source=HERE)
    assert refusal == "nothing came for 0.05 s"
    assert peer.agent.content(7) is None


async def test_who_is_fenced_while_a_snapshot_comes_does_not_acknowledge_it(
    peer: SimpleNamespace,
) -> None:
    async def fence() -> AsyncGenerator[bytes]:
        first, *rest = await wire(snapshot())
        yield first
        peer.agent.replicas.close()
        for piece in rest:
            yield piece

    refusal = ""
    with suppress(ConnectionError):
        refusal = await offer_shard(peer.endpoint, OFFER, fence(), source=HERE)
        assert refusal == "it keeps nothing more"


@pytest.mark.parametrize("seed", range(20))
async def test_nonsense_on_the_peer_port_hurts_nobody(peer: SimpleNamespace, seed: int) -> None:
    chance = random.Random(seed)
    line = PeerRequest(offer=OFFER).model_dump_json(exclude_none=True).encode() + b"\n"
    body = b"".join(await wire(snapshot()))
    nonsense = [
        line[: chance.randrange(len(line))],
        line.replace(b"2097157", b"9" * chance.randrange(1, 400)),
        line.replace(b'"shard":1', b'"shard":-1'),
        line + body[: chance.randrange(len(body))],
        line + chance.randbytes(chance.randrange(len(body) + 100)),
        chance.randbytes(chance.randrange(1, 3 * MAX_LINE_BYTES)),
        b"[" * 100_000 + b"\n",
        b'{"offer": null, "order": 1}\n',
    ]
    reader, writer = await asyncio.open_connection(HERE, peer.endpoint.port)
    writer.write(chance.choice(nonsense))
    writer.write_eof()
    with suppress(ConnectionError):
        await reader.read()
    writer.close()
    assert peer.agent.content(7) is None
    assert await peer.agent.still_keeps(peer.endpoint)


async def test_a_body_of_another_length_is_not_kept() -> None:
    kept = Replicas(1 << 30)
    incoming = kept.begin(OFFER)
    assert isinstance(incoming, Incoming)
    stream = asyncio.StreamReader()
    stream.feed_data(xxhash.xxh3_128_digest(BODY[:9]) + BODY[:9])
    stream.feed_eof()
    with pytest.raises(asyncio.IncompleteReadError):
        await take_in(incoming, stream.readexactly)
    kept.end(incoming)
    assert list(kept.snapshots()) == []


@given(
    st.lists(st.tuples(st.integers(1, 1 << 24), st.floats(0, 2)), min_size=1, max_size=50),
    st.integers(1 << 10, 1 << 30),
)
def test_no_more_goes_out_than_the_rate_allows(
    sent: list[tuple[int, float]], bytes_per_second: int
) -> None:
    """Between the first byte and any later one; whoever sends waits as it is told, or longer."""
    pace, now, total_bytes = Pace(bytes_per_second), 100.0, 0
    for count, dallied_seconds in sent:
        total_bytes += count
        now = pace.next_at(count, now) + dallied_seconds
        assert total_bytes <= bytes_per_second * (now - 100.0) * (1 + 1e-6)


async def test_a_transfer_takes_as_long_as_its_rate_says(peer: SimpleNamespace) -> None:
    bytes_per_second = 8 * BYTES
    began = time.monotonic()
    for step in (7, 8):
        offered = OFFER.model_copy(update={"step": step})
        pieces = pieces_of(snapshot(step), Pace(bytes_per_second))
        assert await offer_shard(peer.endpoint, offered, pieces, source=HERE) == ""
    assert 2 * BYTES / (time.monotonic() - began) <= bytes_per_second
