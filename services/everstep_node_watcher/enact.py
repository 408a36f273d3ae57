"""Publishes facts in order, without ever making the one who hears wait."""

import asyncio
from typing import Final

import structlog
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.base import Event
from everstep_contract.facts.member import MemberRecovered, MemberSuspected
from everstep_contract.facts.node import WatcherBlinded, WatcherSighted
from everstep_runtime.clock import Clock

from everstep_node_watcher.metrics import FACTS, STAGES, SUSPICIONS

WAITING_FACTS: Final = 65_536
"""More than a large cluster has objects: all of them are told when the watcher starts."""
RETRY_SECONDS: Final = 0.25

log = structlog.get_logger()


class Outbox:
    """Facts on their way to the bus.

    A suspicion that stands is said again by `decide`, so one that could not be published before
    its next reassertion is dropped rather than told late as if it were fresh. What is said only
    once, a recovery or what the cluster holds, is tried until it is acknowledged.
    """

    def __init__(
        self, bus: Bus, clock: Clock, *, fresh_seconds: float, capacity: int = WAITING_FACTS
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._fresh_seconds = fresh_seconds
        self._waiting: asyncio.Queue[tuple[Event, float]] = asyncio.Queue(capacity)

    @property
    def waiting(self) -> int:
        """How many facts have not been published yet."""
        return self._waiting.qsize()

    def put(self, facts: tuple[Event, ...]) -> None:
        """Hand over facts; never waits. Beyond the capacity they are dropped and counted."""
        for fact in facts:
            _tell(fact)
            try:
                self._waiting.put_nowait((fact, self._clock.monotonic()))
            except asyncio.QueueFull:
                FACTS.labels("overflowed").inc()

    async def publish(self) -> None:
        """Publish what is handed over, until cancelled."""
        while True:
            fact, since = await self._waiting.get()
            await self._publish(fact, since)

    async def _publish(self, fact: Event, since: float) -> None:
        repeated = isinstance(fact, MemberSuspected | WatcherBlinded)
        while not repeated or self._clock.monotonic() - since <= self._fresh_seconds:
            try:
                await self._bus.publish(fact)
            except TransientBusError as error:
                FACTS.labels("unanswered").inc()
                log.warning("fact not published", fact=fact.dedup_id, error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
                continue
            FACTS.labels("published").inc()
            if isinstance(fact, MemberSuspected) and fact.reassertion == 0:
                STAGES.labels("noticed").observe(self._clock.monotonic() - since)
            return
        FACTS.labels("stale").inc()


def _tell(fact: Event) -> None:
    """One log line for what is new; nothing for what is only said again."""
    match fact:
        case MemberSuspected(reassertion=0):
            SUSPICIONS.labels(fact.reason).inc()
            log.warning(
                "member suspected",
                job=str(fact.job),
                member=fact.member.name,
                incarnation=fact.member.incarnation,
                node=fact.member.node,
                reason=fact.reason,
                detail=fact.detail,
            )
        case MemberRecovered():
            log.info("member recovered", job=str(fact.job), incarnation=fact.member.incarnation)
        case WatcherBlinded() | WatcherSighted():
            log.warning(fact.TYPE.split(".")[2], episode=fact.episode)
        case _:
            pass
