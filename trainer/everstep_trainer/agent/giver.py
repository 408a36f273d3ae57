"""Gives snapshots to the partner to keep: one at a time, none too fast; no step waits for it."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import structlog
from everstep_checkpoint.errors import OverwrittenError
from everstep_contract.identity import Endpoint

from everstep_trainer.agent.inputs import Input, SnapshotGiven
from everstep_trainer.agent.memory import Memory
from everstep_trainer.agent.model import Me
from everstep_trainer.agent.peer import offer_shard
from everstep_trainer.agent.replicas import Offer
from everstep_trainer.agent.sending import Held, Pace, pieces_of
from everstep_trainer.agent.snapshots import Snapshot

MAX_GIFTS: Final = 1
"""Waiting: the core asks for the next when it has heard of the one before."""
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
        self._gifts: asyncio.Queue[tuple[Snapshot, Held, Endpoint]] = asyncio.Queue(MAX_GIFTS)
        self._giving: asyncio.Task[None] | None = None

    def give(self, snapshot: Snapshot, to: Endpoint) -> None:
        """Hold a snapshot where it is, and have it sent; `SnapshotGiven` says what became of it."""
        found = self._memory.find(snapshot)
        if found is None:
            self._hear(SnapshotGiven(snapshot, kept=False))
            return
        held = Held(*found)
        held.hold()
        self._gifts.put_nowait((snapshot, held, to))

    async def run(self) -> None:
        """Send what is given, until `stop`."""
        self._giving = asyncio.current_task()
        while True:
            snapshot, held, to = await self._gifts.get()
            refusal = await self._send(snapshot, held, to)
            if refusal:
                log.info("snapshot not kept by a peer", step=snapshot.step, why=refusal)
                await asyncio.sleep(PAUSE_SECONDS)
            self._hear(SnapshotGiven(snapshot, kept=not refusal))

    def stop(self) -> None:
        """Send nothing more (R24)."""
        if self._giving:
            self._giving.cancel()

    async def _send(self, snapshot: Snapshot, held: Held, to: Endpoint) -> str:
        offer, source = Offer.of(snapshot, self._me.incarnation), self._me.peer.host
        try:
            async with aclosing(pieces_of(held, self._pace)) as pieces:
                return await offer_shard(to, offer, pieces, source=source)
        except (OSError, ValueError, OverwrittenError) as error:
            return str(error) or type(error).__name__
        finally:
            held.let_go()
