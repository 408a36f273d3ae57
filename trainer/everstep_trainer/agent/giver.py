"""Gives snapshots to the partner to keep: one at a time, none too fast; no step waits for it."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import structlog
from everstep_checkpoint.errors import OverwrittenError

from everstep_trainer.agent.effects import GiveSnapshot
from everstep_trainer.agent.inputs import Input, SnapshotGiven
from everstep_trainer.agent.memory import Memory
from everstep_trainer.agent.model import Me
from everstep_trainer.agent.peer import offer_shard
from everstep_trainer.agent.replicas import Incoming, Offer
from everstep_trainer.agent.sending import Held, Pace, pieces_of

MAX_GIFTS: Final = 1
"""Waiting: the core asks for the next when it has heard of the one before."""
REACH_SECONDS: Final = 0.25
"""How long a snapshot keeps its slot until the partner says that it wants it; in a gang that is a
millisecond. Once bytes flow the hold is renewed with each piece."""
PAUSE_SECONDS: Final = 1.0
"""After one that was not kept, so that a partner that is away is not asked all the time."""

log = structlog.get_logger()


class Giver:
    """The sender's half of copies in a peer's memory."""

    def __init__(self, me: Me, memory: Memory, hear: Callable[[Input], None]) -> None:
        self._me = me
        self._memory = memory
        self._hear = hear
        self._pace = Pace(me.replication.bytes_per_second)
        self._gifts: asyncio.Queue[tuple[GiveSnapshot, Held]] = asyncio.Queue(MAX_GIFTS)
        self._giving: asyncio.Task[None] | None = None

    def give(self, gift: GiveSnapshot) -> None:
        """Hold a snapshot where it is, and have it sent; `SnapshotGiven` says what became of it."""
        found = self._memory.find(gift.snapshot)
        if found is None:
            self._hear(SnapshotGiven(gift.snapshot, kept=False))
            return
        held = Held(*found)
        held.hold(REACH_SECONDS)
        self._gifts.put_nowait((gift, held))

    async def run(self) -> None:
        """Send what is given, until `stop`."""
        self._giving = asyncio.current_task()
        while True:
            gift, held = await self._gifts.get()
            refusal = await self._send(gift, held)
            if refusal:
                log.info("snapshot not kept by a peer", step=gift.snapshot.step, why=refusal)
                await asyncio.sleep(PAUSE_SECONDS)
            self._hear(SnapshotGiven(gift.snapshot, kept=not refusal))

    def stop(self) -> None:
        """Send nothing more (R24)."""
        if self._giving:
            self._giving.cancel()

    async def _send(self, gift: GiveSnapshot, held: Held) -> str:
        try:
            offer = Offer.of(gift.snapshot, self._me.incarnation, gift.every)
            copy = self._memory.replicas.begin(offer) if gift.every else None
            if isinstance(copy, str):
                return copy
            return await self._send_pieces(gift, offer, held, copy)
        except (OSError, ValueError, OverwrittenError) as error:
            return str(error) or type(error).__name__
        finally:
            held.let_go()

    async def _send_pieces(
        self, gift: GiveSnapshot, offer: Offer, held: Held, copy: Incoming | None
    ) -> str:
        try:
            async with aclosing(pieces_of(held, self._pace, copy)) as pieces:
                refusal = await offer_shard(gift.to, offer, pieces, source=self._me.peer.host)
            if copy and not refusal and copy.is_wanted:
                copy.finish()
            return refusal
        finally:
            if copy:
                self._memory.replicas.end(copy)
