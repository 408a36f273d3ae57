"""Desks come and go with their jobs."""

import asyncio

from everstep_adjudicator.court import Court
from everstep_adjudicator.desk import OVER_KEPT_SECONDS
from everstep_adjudicator.policy import Policy
from everstep_bus.memory import MemoryBroker, MemoryBus
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_contract.queries import JobStatus
from support.jobs import JOB, member, record
from support.virtual_time import VirtualClock, in_virtual_time


async def an_hour_later(court: Court) -> tuple[JobKey, ...]:
    """The jobs that still have a desk."""
    await court.compare_records()
    await asyncio.sleep(OVER_KEPT_SECONDS + 1)
    await court.compare_records()
    return court.jobs


@in_virtual_time
async def test_only_the_desk_of_a_job_that_is_long_over_is_closed() -> None:
    bus = MemoryBus(MemoryBroker(), "test")
    jobs = bus.kv(JOBS)
    await jobs.put(JOB.token, record(3, (member(0),), state="hold"), expected=0)
    async with asyncio.TaskGroup() as group:
        court = Court(bus, Policy(), VirtualClock(), group, lease_revision=1)
        await court.take_over()
        assert await an_hour_later(court) == (JOB,)
        entry = await jobs.get(JOB.token)
        assert entry is not None
        over = record(4, (), state="stop", phase="ended")
        await jobs.put(JOB.token, over, expected=entry.revision)
        assert await an_hour_later(court) == ()
        told = await court.status(JobStatus(job=JOB))
        assert told.record is not None
        assert told.record.phase == "ended"
