"""`everstep status`: jobs as their records say, and what the adjudicator waits for."""

import json
import sys
from typing import Final

from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.layout import INCIDENTS
from everstep_contract.queries import JobStatus, JobStatusReply
from everstep_contract.record import JobRecord
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from everstep_cli.access import ASK_SECONDS, with_bus
from everstep_cli.going_on import to_go_on
from everstep_cli.jobs import records
from everstep_cli.options import Access
from everstep_cli.rescaling import said_of
from everstep_cli.terminal import output

UNKNOWN: Final = "unknown: no adjudicator answers"
ARCHIVE: Final = "an archive: jobs as they were when it was kept"


def show_status(access: Access, job: str | None, *, as_json: bool) -> None:
    """Print jobs, or the one that is asked for; those of a store without asking anybody."""

    async def show(bus: Bus) -> None:
        found = await records(bus, job)
        of = _kept if access.store else _status_of
        jobs = [(await of(bus, record), await to_go_on(bus, record)) for record in found]
        if as_json:
            listed = [reply.model_dump(mode="json") | {"to_go_on": hint} for reply, hint in jobs]
            sys.stdout.write(json.dumps(listed) + "\n")
        else:
            heading = [Text(ARCHIVE, "yellow")] if access.store else []
            views = [job_view(reply, hint) for reply, hint in jobs]
            output().print(Group(*heading, *views) if views else "no jobs", crop=False)

    with_bus(show, access)


def job_view(reply: JobStatusReply, hint: str = "") -> RenderableType:
    """One job for people. ``hint``: how to go on with one that was given up."""
    record = reply.record
    assert record is not None
    heading = (
        f"{record.job}: {record.state}, {record.phase}, generation {record.generation} "
        f"({record.verdict.kind}: {record.reason})"
    )
    table = Table("rank", "member", "node", "incarnation", "workers")
    rank = 0
    for seat in record.seats:
        member = seat.member
        table.add_row(str(rank), member.name, member.node, member.incarnation, str(seat.nproc))
        rank += seat.nproc
    lines: list[RenderableType] = [Text(heading, "bold"), table]
    lines += [Text(f"open incident {incident.id}", "red") for incident in reply.incidents]
    if record.rescale is not None and record.rescale.stage != "done":
        lines.append(_to_copy(said_of(record.rescale)))
    if reply.waiting_for:
        lines.append(Text(f"waits for: {reply.waiting_for}", "yellow"))
    if hint:
        lines.append(_to_copy(f"to go on: {hint}"))
    return Group(*lines)


def _to_copy(line: str) -> Text:
    """One line however wide the terminal is: it may have a command in it."""
    return Text(line, "yellow", no_wrap=True, overflow="ignore")


async def _status_of(bus: Bus, record: JobRecord) -> JobStatusReply:
    """The adjudicator's view, or what the buckets say when none answers."""
    try:
        query = JobStatus(job=record.job)
        return await bus.ask(query, JobStatusReply, timeout_seconds=ASK_SECONDS)
    except TransientBusError:
        return (await _kept(bus, record)).model_copy(update={"waiting_for": UNKNOWN})


async def _kept(bus: Bus, record: JobRecord) -> JobStatusReply:
    incidents = [entry.value for entry in await bus.kv(INCIDENTS).entries()]
    of_job = (i for i in incidents if i and i.job_uid == record.job_uid and not i.outcome)
    return JobStatusReply(record=record, incidents=tuple(of_job))
