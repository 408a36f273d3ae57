"""How a snapshot crosses the training network: in pieces, each with its hash, none too fast.

After the line that offers it the receiver says whether it wants it. Then come the pieces, each
behind 16 bytes of its hash, and at last the hash of the whole; the answer to that is the
acknowledgement. Whoever is slower than a piece in `PIECE_SECONDS` is given up.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import xxhash
from everstep_checkpoint.slots import SlotPair, Word

from everstep_trainer.agent.flusher import HOLD_SECONDS
from everstep_trainer.agent.replicas import Incoming

PIECE_BYTES: Final = 1 << 20
PIECE_SECONDS: Final = 5.0
DIGEST_BYTES: Final = 16

Read = Callable[[int], Awaitable[bytes]]
"""Exactly so many bytes. Raises `asyncio.IncompleteReadError` if they do not come."""


class Pace:
    """Says when to go on so that no more goes out in a second than may."""

    def __init__(self, bytes_per_second: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._free_at = 0.0

    def next_at(self, sent_bytes: int, now: float) -> float:
        """The next bytes' time (monotonic seconds) if so many are sent ``now``.

        What was not used before is lost: no burst makes up for it.
        """
        self._free_at = max(self._free_at, now) + sent_bytes / self._bytes_per_second
        return self._free_at


@dataclass(frozen=True)
class Held:
    """A snapshot in its slot, which nobody writes over while it is read."""

    pair: SlotPair
    slot: int
    word: Word

    def hold(self, seconds: float = HOLD_SECONDS) -> None:
        """For so long, whatever becomes of the reader."""
        until_ns = time.monotonic_ns() + int(seconds * 1e9)
        self.pair.hold(self.slot, until_ns=until_ns, reader="peer")

    def let_go(self) -> None:
        """Training may write over it."""
        self.pair.hold(self.slot, until_ns=0, reader="peer")


async def pieces_of(held: Held, pace: Pace, copy: Incoming | None = None) -> AsyncGenerator[bytes]:
    """What goes over the network for a snapshot, at the pace that is allowed.

    Args:
        held: The snapshot.
        pace: Of all that this member sends.
        copy: Takes the same bytes in.

    Raises:
        OverwrittenError: It was written over: nothing of what was sent counts.
    """
    whole = xxhash.xxh3_128()
    for piece in held.pair.read(held.slot, held.word, memoryview(bytearray(PIECE_BYTES))):
        next_at = pace.next_at(len(piece), time.monotonic())
        whole.update(piece)
        held.hold()
        yield xxhash.xxh3_128_digest(piece) + bytes(piece)
        if copy and copy.is_wanted:
            copy.put(piece)
        await asyncio.sleep(max(0.0, next_at - time.monotonic()))
    yield whole.digest()


async def take_in(incoming: Incoming, read: Read) -> str:
    """Take a shard in, piece by piece; why it is not kept, or nothing if it is.

    Raises:
        asyncio.IncompleteReadError: Who sends it ended, or its snapshot was written over.
    """
    total_bytes = incoming.offer.total_bytes
    try:
        for at in range(0, total_bytes, PIECE_BYTES):
            count = min(PIECE_BYTES, total_bytes - at)
            data = await _in_time(read(DIGEST_BYTES + count))
            piece = memoryview(data)[DIGEST_BYTES:]
            if not incoming.is_wanted:
                return "it keeps nothing more"
            if xxhash.xxh3_128_digest(piece) != data[:DIGEST_BYTES]:
                return f"the piece at byte {at} is not what was sent"
            incoming.put(piece)
        digest = await _in_time(read(DIGEST_BYTES))
    except TimeoutError:
        return f"nothing came for {PIECE_SECONDS:g} s"
    if digest != incoming.digest:
        return "the whole is not what was sent"
    if not incoming.is_wanted:
        return "it keeps nothing more"
    incoming.finish()
    return ""


async def _in_time(reading: Awaitable[bytes]) -> bytes:
    async with asyncio.timeout(PIECE_SECONDS):
        return await reading
