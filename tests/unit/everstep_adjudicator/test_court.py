"""Desks come and go with their jobs."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from everstep_adjudicator.court import Court
from everstep_adjudicator.desk import OVER_KEPT_SECONDS, Desk, EndlessDecisionError
from everstep_adjudicator.policy import Policy
from everstep_bus.interface import Bus
from everstep_bus.memory import MemoryBroker, MemoryBus
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_contract.queries import JobStatus
from everstep_contract.telemetry import MemberReport
from support.jobs import JOB, member, record, report
from support.virtual_time import VirtualClock, in_virtual_time


class OverError(Exception):
    """Ends a court's tasks with the test."""


@asynccontextmanager
async def sitting(bus: Bus) -> AsyncIterator[Court]:
    try:
        async with asyncio.TaskGroup() as group:
            yield Court(bus, Policy(), VirtualClock(), group, lease_revision=1)
            raise OverError
    except* OverError:
        pass


@contextmanager
def broken_rules(method: str, broken: Callable[..., Any]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Desk, method, broken)
        yield


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
    async with sitting(bus) as court:
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


@in_virtual_time
async def test_what_breaks_about_one_job_takes_no_other_job_along() -> None:
    heard: list[JobKey] = []

    async def hear_report(_desk: Desk, told: MemberReport) -> None:
        if told.job == JOB:
            raise EndlessDecisionError("the rules do not come to rest")
        heard.append(told.job)

    other = JobKey(namespace="training", name="other")
    with broken_rules("hear_report", hear_report):
        async with sitting(MemoryBus(MemoryBroker(), "test")) as court:
            await court.hear_report(report(member(0)))
            await court.hear_report(report(member(0)).model_copy(update={"job": other}))
    assert heard == [other]


@in_virtual_time
async def test_a_rule_that_breaks_when_its_time_comes_is_tried_again() -> None:
    tries: list[float] = []

    async def keep_time(_desk: Desk) -> None:
        tries.append(asyncio.get_running_loop().time())
        raise EndlessDecisionError("the rules do not come to rest")

    with broken_rules("keep_time", keep_time):
        async with sitting(MemoryBus(MemoryBroker(), "test")) as court:
            await court.hear_report(report(member(0)))
            await asyncio.sleep(1.0)
    assert len(tries) > 2
