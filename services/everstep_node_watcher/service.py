"""The loop: hear of connections, records and reports; suspect and recover members."""

import asyncio
from typing import Final

import structlog
from everstep_bus.errors import BusError
from everstep_bus.interface import Bus, Entry, Received, ServerEvents
from everstep_contract import subjects
from everstep_contract.facts.member import MemberLeft
from everstep_contract.identity import JobKey
from everstep_contract.layout import EVENTS, JOBS, Consumer
from everstep_contract.record import JobRecord
from everstep_runtime.clock import Moment
from everstep_runtime.health import Readiness

from everstep_node_watcher.decide import decide
from everstep_node_watcher.enact import Outbox
from everstep_node_watcher.metrics import BLIND, GOODBYES, SILENT
from everstep_node_watcher.model import (
    Duty,
    JobForgotten,
    Observation,
    OutOfSight,
    Paged,
    PagingBegun,
    Said,
    View,
)
from everstep_node_watcher.view import fold

TICK_SECONDS: Final = 0.25
LEAVERS: Final = Consumer(
    "node_watcher", EVENTS, (subjects.event_filter(MemberLeft),), from_now=True
)
"""Goodbyes. Watchers share it: who missed one suspects a member that the adjudicator knows left."""

log = structlog.get_logger()


class Watcher:
    """What is known and what was said, and the way out for what is to be said."""

    def __init__(self, duty: Duty, outbox: Outbox) -> None:
        self._policy = duty.policy
        self._clock = duty.clock
        self._silent = duty.silent
        self._outbox = outbox
        self._view = View()
        self._said = Said()

    def hear(self, observation: Observation) -> None:
        """Take in one observation and say what follows from it."""
        view = fold(self._view, observation, self._policy, self._clock.monotonic())
        if view is not self._view:
            self._view = view
            self.speak()

    def speak(self) -> None:
        """Say what is due now."""
        now = Moment.of(self._clock)
        self._said, facts = decide(self._view, self._said, self._policy, now)
        self._outbox.put(facts)
        BLIND.set(self._said.blindness is not None)
        self._silent.clients = frozenset(self._said.spoken.standing)
        SILENT.set(len(self._said.spoken.standing))


async def serve(bus: Bus, events: ServerEvents, duty: Duty) -> None:
    """Watch the connections of all jobs' members, until cancelled."""
    duty.readiness.expect("connections", "jobs")
    outbox = Outbox(bus, duty.clock, fresh_seconds=duty.policy.reassert_seconds)
    watcher = Watcher(duty, outbox)
    sighted = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(outbox.publish())
        group.create_task(_hear_advisories(events, watcher))
        group.create_task(_hear_records(bus, watcher))
        group.create_task(_hear_reports(bus, watcher))
        group.create_task(_hear_goodbyes(bus, watcher))
        group.create_task(_tick(events, watcher, sighted))
        inventory = Inventory(bus, events, watcher, duty.readiness)
        group.create_task(inventory.repeat(duty.policy.inventory_seconds, sighted))


async def _hear_advisories(events: ServerEvents, watcher: Watcher) -> None:
    async for advisory in events.advisories():
        watcher.hear(advisory)


async def _hear_records(bus: Bus, watcher: Watcher) -> None:
    async for entry in bus.kv(JOBS).watch():
        _hear_record(watcher, entry)


def _hear_record(watcher: Watcher, entry: Entry[JobRecord]) -> None:
    watcher.hear(entry.value or JobForgotten(JobKey.from_token(entry.key)))


async def _hear_reports(bus: Bus, watcher: Watcher) -> None:
    async for report in bus.reports():
        watcher.hear(report)


async def _hear_goodbyes(bus: Bus, watcher: Watcher) -> None:
    async def handle(received: Received) -> None:
        if isinstance(received.message, MemberLeft):
            watcher.hear(received.message)
            GOODBYES.inc()

    await bus.consume(LEAVERS, handle)


async def _tick(events: ServerEvents, watcher: Watcher, sighted: asyncio.Event) -> None:
    """Let time pass; notice when the servers' events are out of sight, and in sight again."""
    seen = events.connected
    while True:
        await asyncio.sleep(TICK_SECONDS)
        if events.connected and not seen:
            sighted.set()
        if seen and not events.connected:
            watcher.hear(OutOfSight())
        seen = events.connected
        watcher.speak()


class Inventory:
    """Compares with the servers' connection lists and with the records, again and again (R10)."""

    def __init__(
        self, bus: Bus, events: ServerEvents, watcher: Watcher, readiness: Readiness
    ) -> None:
        self._bus = bus
        self._events = events
        self._watcher = watcher
        self._readiness = readiness
        self._failing = False

    async def repeat(self, every_seconds: float, sighted: asyncio.Event) -> None:
        """Compare at once, every so often, and whenever ``sighted`` is set."""
        while True:
            sighted.clear()
            try:
                await self._compare()
                self._failing = False
            except BusError as error:
                if not self._failing:
                    log.warning("connections not compared", error=str(error))
                self._failing = True
            try:
                async with asyncio.timeout(every_seconds):
                    await sighted.wait()
            except TimeoutError:
                continue

    async def _compare(self) -> None:
        for entry in await self._bus.kv(JOBS).entries():
            _hear_record(self._watcher, entry)
        self._readiness.prove("jobs")
        self._watcher.hear(PagingBegun())
        connections = await self._events.connections()
        self._watcher.hear(Paged(connections))
        self._readiness.prove("connections")
