"""Jobs by the names that people type, and what a command asks the adjudicator about one."""

from typing import TypeVar

from everstep_bus.errors import NoReplyError, QueryRefusedError
from everstep_bus.interface import Bus
from everstep_contract.layout import JOBS
from everstep_contract.queries import JobStatus, JobStatusReply, Query, Reply
from everstep_contract.record import JobRecord

from everstep_cli.access import ASK_SECONDS
from everstep_cli.errors import CommandError

R = TypeVar("R", bound=Reply)


async def records(bus: Bus, job: str | None) -> list[JobRecord]:
    """All jobs, or those of this name, with its namespace or without.

    Raises:
        CommandError: There is none of this name; it says which there are.
    """
    entries = await bus.kv(JOBS).entries()
    found = [entry.value for entry in entries if entry.value is not None]
    wanted = [record for record in found if job in (None, str(record.job), record.job.name)]
    if job is not None and not wanted:
        there = ", ".join(sorted(str(record.job) for record in found))
        raise CommandError(f"no job {job!r}, as NAMESPACE/JOB; there are: {there or 'none'}")
    return wanted


async def looked_at(bus: Bus, job: str) -> JobRecord:
    """The one job of this name as the adjudicator holds it now: what a command refers to.

    Raises:
        CommandError: There is none, or more than one, or no adjudicator answers.
    """
    found = await records(bus, job)
    if len(found) > 1:
        raise CommandError(f"several jobs {job!r}: {', '.join(str(one.job) for one in found)}")
    record = (await status_of(bus, found[0])).record
    return record or found[0]


async def status_of(bus: Bus, record: JobRecord) -> JobStatusReply:
    """What the adjudicator knows of the job.

    Raises:
        CommandError: No adjudicator answers.
    """
    return await told(bus, JobStatus(job=record.job), JobStatusReply)


async def told(bus: Bus, query: Query, reply: type[R]) -> R:
    """The adjudicator's answer.

    Raises:
        CommandError: It refuses, with its reason, or does not answer.
    """
    try:
        return await bus.ask(query, reply, timeout_seconds=ASK_SECONDS)
    except QueryRefusedError as error:
        raise CommandError(f"refused: {error.reason}") from None
    except NoReplyError:
        what = "" if isinstance(query, JobStatus) else "; `everstep status` says if it was done"
        raise CommandError(f"no adjudicator answers{what}") from None
