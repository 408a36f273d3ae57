"""Facts on their way to the bus: kept and repeated while they still matter, in order, bounded."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

import structlog
from everstep_bus.errors import BusError, TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.base import Event
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberFormed, MemberJoined
from everstep_contract.facts.worker import CollectiveFailed

from everstep_trainer.agent.model import AgentState

MAX_KEPT: Final = 256
"""Facts kept through an outage; a member makes some five a generation."""
RETRY_SECONDS: Final = 0.1
RETRY_LIMIT_SECONDS: Final = 2.0

log = structlog.get_logger()


def matters(event: Event, state: AgentState) -> bool:
    """Whether anybody still gains from a fact. What a newer order has overtaken is not told late
    as if it were fresh; what ended, ended, and is told however late."""
    match event:
        case StepAdvanced(first=False):
            return event.verdict_id == state.verdict_id and event.step == state.told.advanced_step
        case MemberJoined() | MemberFormed() | CollectiveFailed() | StepAdvanced():
            return event.verdict_id == state.verdict_id
        case _:
            return True


class Outbox:
    """Publishes one fact after the other, as soon as it comes."""

    def __init__(self, still_matters: Callable[[Event], bool]) -> None:
        self._still_matters = still_matters
        self._kept: deque[Event] = deque(maxlen=MAX_KEPT)
        self._news = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def put(self, event: Event) -> None:
        """Publish soon; when too many are kept, the oldest goes."""
        if len(self._kept) == MAX_KEPT:
            log.warning("fact dropped, too many wait for the bus", type=self._kept[0].TYPE)
        self._kept.append(event)
        self._empty.clear()
        self._news.set()

    async def flush(self, seconds: float) -> None:
        """Wait until everything is published, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._empty.wait()
        except TimeoutError:
            log.warning("ended with facts unpublished", count=len(self._kept))

    async def run(self, bus: Bus) -> None:
        """Publish until cancelled."""
        while True:
            while self._kept:
                event = self._kept[0]
                await self._publish(bus, event)
                if self._kept[0] is event:  # else it was dropped meanwhile
                    self._kept.popleft()
            self._empty.set()
            self._news.clear()
            await self._news.wait()

    async def _publish(self, bus: Bus, event: Event) -> None:
        pause = RETRY_SECONDS
        while self._still_matters(event):
            try:
                await bus.publish(event)
            except TransientBusError:
                await asyncio.sleep(pause)
                pause = min(2 * pause, RETRY_LIMIT_SECONDS)
            except BusError as error:
                log.error("fact refused by the bus", type=event.TYPE, why=str(error))
                return
            else:
                return
