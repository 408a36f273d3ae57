"""The loop: lead, take over every job's record, hear facts and reports, decide and enact."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus, Proven
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.facts.job import (
    JobObserved,
    OrderIssued,
    PodObserved,
    RescaleAnswered,
    StepAdvanced,
)
from everstep_contract.facts.member import (
    MemberFormed,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
    OrderRefused,
)
from everstep_contract.facts.node import (
    NodeObserved,
    NodeQuarantined,
    NodeReleased,
    WatcherBlinded,
    WatcherSighted,
)
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.layout import EVENTS, JOBS, Consumer
from everstep_contract.queries import JobStatus, RescaleJob, ResumeJob, SuspendJob
from everstep_runtime.clock import Clock
from everstep_runtime.health import Readiness
from everstep_runtime.lease import Lease

from everstep_adjudicator.court import Court
from everstep_adjudicator.enact import LEASE_NAME
from everstep_adjudicator.policy import Policy

COMPARE_SECONDS: Final = 5.0
"""How often every record is compared with what is held of it: a third of what EC-04 allows."""
INCIDENTS_SECONDS: Final = 60.0
"""There may be years of them, and they are for people."""
HEARD: Final[tuple[type[Event], ...]] = (
    *(JobObserved, OrderIssued, PodObserved, RescaleAnswered, StepAdvanced),
    *(MemberJoined, MemberFormed, MemberLeft, MemberSuspected, MemberRecovered, OrderRefused),
    *(WorkerExited, CollectiveFailed),
    *(NodeObserved, NodeQuarantined, NodeReleased, WatcherBlinded, WatcherSighted),
)
FACTS: Final = Consumer(
    "adjudicator",
    EVENTS,
    tuple(map(subjects.event_filter, HEARD)),
    ack_wait_seconds=1.0,  # so long a fact is lost that its reader died over
)

log = structlog.get_logger()


async def serve(
    bus: Bus, policy: Policy, clock: Clock, readiness: Readiness, *, instance: str
) -> None:
    """Decide about all jobs while holding the lease, until cancelled."""
    readiness.expect("jobs", "facts")
    leading = asyncio.Event()

    async def lead(lease_revision: int) -> None:
        leading.set()
        try:
            async with asyncio.TaskGroup() as group:
                court = Court(bus, policy, clock, group, lease_revision)
                await _sit(bus, court, group, lambda: readiness.prove("facts"))
        finally:
            leading.clear()

    async with asyncio.TaskGroup() as group:
        group.create_task(_prove(bus, readiness, leading))
        group.create_task(Lease(bus, clock, name=LEASE_NAME, holder=instance).lead(lead))


async def _sit(bus: Bus, court: Court, group: asyncio.TaskGroup, proven: Proven) -> None:
    await court.take_over()
    async with (
        bus.answer(JobStatus, court.status),
        bus.answer(SuspendJob, court.obey),
        bus.answer(ResumeJob, court.obey),
        bus.answer(RescaleJob, court.obey),
    ):
        group.create_task(_hear_reports(bus, court))
        group.create_task(_repeat(court.compare_records, COMPARE_SECONDS))
        group.create_task(_repeat(court.compare_nodes, COMPARE_SECONDS))
        group.create_task(_repeat(court.compare_incidents, INCIDENTS_SECONDS))
        await bus.consume(FACTS, court.hear, proven=proven)


async def _hear_reports(bus: Bus, court: Court) -> None:
    async for report in bus.reports():
        await court.hear_report(report)


async def _repeat(work: Callable[[], Awaitable[None]], every_seconds: float) -> None:
    while True:
        await asyncio.sleep(every_seconds)
        await work()


async def _prove(bus: Bus, readiness: Readiness, leading: asyncio.Event) -> None:
    """Records can be read; and a standby, which consumes nothing, misses nothing."""
    while True:
        try:
            await bus.kv(JOBS).entries()
            readiness.prove("jobs")
            if not leading.is_set():
                readiness.prove("facts")
        except TransientBusError as error:
            log.debug("not proven", error=str(error))
        await asyncio.sleep(COMPARE_SECONDS)
