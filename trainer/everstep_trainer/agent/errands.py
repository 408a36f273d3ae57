"""What an agent does on the training network by its own motion: offer orders, reach peers.

Errands never hold up anything else; a newer order makes the older errands idle.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol

import structlog
from everstep_contract.identity import Endpoint
from everstep_contract.orders import Order

from everstep_trainer.agent.inputs import Input, OrderConfirmed, PeersReached
from everstep_trainer.agent.peer import ASK_SECONDS, ask_peer

MAX_ERRANDS: Final = 64
"""Under way at once. One takes a second at most, and an order starts some twenty."""
RETRY_SECONDS: Final = 0.5

log = structlog.get_logger()


class Hearer(Protocol):
    """The agent, as its errands see it."""

    @property
    def order(self) -> Order | None:
        """The newest order heard."""
        ...

    def hear(self, heard: Input) -> None:
        """Take in what an errand brought."""
        ...

    def hear_order(self, order: Order, via: str) -> None:
        """Take in an order."""
        ...


class Errands:
    """Runs errands side by side, bounded; what is too much is left out, and gossip comes again."""

    def __init__(self, hearer: Hearer, source: str) -> None:
        self._hearer = hearer
        self._source = source
        self._waiting: asyncio.Queue[Coroutine[Any, Any, None]] = asyncio.Queue(MAX_ERRANDS)

    def offer(self, order: Order, to: tuple[Endpoint, ...], doubt: int | None) -> None:
        """Hand an order to peers; each answers with its newest (R9)."""
        for endpoint in to:
            self._add(self._offer(order, endpoint, doubt))

    def reach(self, verdict_id: str, endpoints: tuple[Endpoint, ...]) -> None:
        """Find out whether all can be reached, again until they can or a newer order comes."""
        self._add(self._reach(verdict_id, endpoints))

    async def run(self) -> None:
        """Run what is added, until cancelled."""
        places = asyncio.Semaphore(MAX_ERRANDS)
        async with asyncio.TaskGroup() as group:
            while True:
                errand = await self._waiting.get()
                await places.acquire()
                group.create_task(errand).add_done_callback(lambda _: places.release())

    def _add(self, errand: Coroutine[Any, Any, None]) -> None:
        if self._waiting.full():
            errand.close()
            log.warning("errand left out, too many under way")
            return
        self._waiting.put_nowait(errand)

    async def _offer(self, order: Order, endpoint: Endpoint, doubt: int | None) -> None:
        try:
            answer = await ask_peer(endpoint, order, ASK_SECONDS, source=self._source)
        except (OSError, ValueError):
            return  # a silent peer is the watcher's matter
        if answer.order:
            self._hearer.hear_order(answer.order, "peer")
        if doubt is not None:
            self._hearer.hear(OrderConfirmed(doubt))

    async def _reach(self, verdict_id: str, endpoints: tuple[Endpoint, ...]) -> None:
        missing = endpoints
        while missing and self._is_newest(verdict_id):
            missing = tuple([e for e in missing if not await _can_connect(e)])
            if missing:
                log.info("cannot reach the gang yet", missing=[str(e) for e in missing])
                await asyncio.sleep(RETRY_SECONDS)
        if not missing:
            self._hearer.hear(PeersReached(verdict_id))

    def _is_newest(self, verdict_id: str) -> bool:
        order = self._hearer.order
        return order is not None and order.verdict_id == verdict_id


async def _can_connect(endpoint: Endpoint) -> bool:
    try:
        async with asyncio.timeout(ASK_SECONDS):
            _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
    except OSError:
        return False
    writer.close()
    return True
