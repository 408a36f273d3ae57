"""The loop: hear of records, order what they ask for; compare everything once a second."""

import asyncio
from functools import partial
from typing import Final

import structlog
from everstep_bus.errors import BusError
from everstep_bus.interface import Bus, Entry, Proven
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_contract.record import JobRecord
from everstep_runtime.clock import Clock
from everstep_runtime.health import Readiness

from everstep_rescaler.enact import OrderDesk

RESYNC_SECONDS: Final = 1.0

log = structlog.get_logger()


async def serve(bus: Bus, clock: Clock, readiness: Readiness) -> None:
    """Order what records ask for, until cancelled."""
    readiness.expect("jobs", "watch")
    desk = OrderDesk(bus, clock)
    async with asyncio.TaskGroup() as group:
        group.create_task(_follow(bus, desk, partial(readiness.prove, "watch")))
        group.create_task(_resync(bus, desk, readiness))


async def _follow(bus: Bus, desk: OrderDesk, proven: Proven) -> None:
    async for entry in bus.kv(JOBS).watch(proven=proven):
        try:
            await _handle(desk, entry)
        except BusError as error:
            log.warning("order not posted", job=entry.key, error=str(error))


async def _handle(desk: OrderDesk, entry: Entry[JobRecord]) -> None:
    if entry.value is None:
        desk.forget(JobKey.from_token(entry.key))
    else:
        await desk.issue(entry.value)


async def _resync(bus: Bus, desk: OrderDesk, readiness: Readiness) -> None:
    failing = False
    while True:
        try:
            for entry in await bus.kv(JOBS).entries():
                if entry.value is not None:
                    await desk.resync(entry.value)
            readiness.prove("jobs")
            failing = False
        except BusError as error:
            if not failing:
                log.warning("records not compared", error=str(error))
            failing = True
        await asyncio.sleep(RESYNC_SECONDS)
