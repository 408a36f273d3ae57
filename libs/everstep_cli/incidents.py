"""`everstep incidents` and `everstep incident ID`: what failed, and where the time went."""

import json
import sys
from typing import Final, NamedTuple, get_args

from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_contract.facts.job import VerdictReached
from everstep_contract.facts.member import MemberEvent, SuspicionReason
from everstep_contract.layout import INCIDENTS
from everstep_contract.queries import JobStatus, JobStatusReply
from everstep_contract.record import IncidentRecord
from everstep_contract.verdicts import Evidence
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from everstep_cli.access import ASK_SECONDS, with_bus
from everstep_cli.errors import CommandError
from everstep_cli.events import stored_facts
from everstep_cli.options import Access
from everstep_cli.status import UNKNOWN
from everstep_cli.terminal import output
from everstep_cli.timeline import timeline, total_seconds

SHOWN_OF_AN_ID: Final = 12


class Heard(NamedTuple):
    """What the stored facts say: an incident's rulings, and members' names by incarnation."""

    rulings: tuple[VerdictReached, ...]
    names: dict[str, str]


def show_incidents(access: Access, *, as_json: bool) -> None:
    """Print all incidents, oldest first."""

    async def show(bus: Bus) -> None:
        found = await all_incidents(bus)
        if as_json:
            listed = [incident.model_dump(mode="json") for incident in found]
            sys.stdout.write(json.dumps(listed) + "\n")
        else:
            output().print(incident_list(found))

    with_bus(show, access)


def show_incident(access: Access, incident_id: str, *, as_json: bool) -> None:
    """Print everything known about one incident."""

    async def show(bus: Bus) -> None:
        found = {record.id: record for record in await all_incidents(bus)}
        if incident_id not in found:
            raise CommandError(f"no incident {incident_id!r}; `everstep incidents` lists them")
        record = found[incident_id]
        heard = await _heard(bus, record)
        waiting = "" if record.outcome or access.store else await _waiting_for(bus, record)
        if as_json:
            sys.stdout.write(json.dumps(explanation(record, heard.rulings, waiting)) + "\n")
        else:
            output().print(incident_view(record, heard, waiting))

    with_bus(show, access)


async def all_incidents(bus: Bus) -> tuple[IncidentRecord, ...]:
    """Every incident that is kept, oldest first."""
    entries = await bus.kv(INCIDENTS).entries()
    found = (entry.value for entry in entries if entry.value is not None)
    return tuple(sorted(found, key=lambda record: record.opened_at))


def explanation(
    record: IncidentRecord, rulings: tuple[VerdictReached, ...], waiting: str
) -> dict[str, object]:
    """Everything known about an incident, as JSON values."""
    stages = timeline(record)
    return {
        "incident": record.model_dump(mode="json"),
        "timeline": [vars(stage) | {"over_budget": stage.over_budget} for stage in stages],
        "total_seconds": total_seconds(record),
        "rulings": [
            {
                "id": ruling.dedup_id,
                "verdict": ruling.verdict.kind,
                "generation": ruling.generation,
                "rule": ruling.reason,
            }
            for ruling in rulings
        ],
        "waiting_for": waiting,
    }


def incident_list(found: tuple[IncidentRecord, ...]) -> RenderableType:
    """A table of incidents."""
    table = Table(
        Column("id", no_wrap=True),
        *("opened", "job", "suspected", "verdict", "outcome", "seconds", "steps lost"),
    )
    for record in found:
        table.add_row(
            record.id,
            record.opened_at.astimezone().strftime("%Y-%m-%d %H:%M:%S"),
            str(record.job),
            ", ".join(member.name for member in record.suspected),
            record.verdict or "-",
            record.outcome or "open",
            f"{total_seconds(record):.3f}",
            "-" if record.steps_lost is None else str(record.steps_lost),
        )
    return table if found else Text("no incidents")


def incident_view(record: IncidentRecord, heard: Heard, waiting: str) -> RenderableType:
    """One incident for people."""
    suspects = ", ".join(f"{member.name} on {member.node}" for member in record.suspected)
    lines: list[RenderableType] = [
        Text(f"{record.id}: {suspects}", "bold"),
        Text(f"outcome: {record.outcome or 'open'}; {record.reason}"),
        _stages(record),
        _evidence(record, heard.names),
        *(Text(f"ruled {ruling.verdict.kind}: {ruling.reason}") for ruling in heard.rulings),
    ]
    if waiting:
        lines.append(Text(f"waits for: {waiting}", "yellow"))
    return Group(*lines)


def _stages(record: IncidentRecord) -> Table:
    table = Table("stage", "since noticed", "took", "budget")
    for stage in timeline(record):
        took = _seconds(stage.seconds)
        table.add_row(
            stage.name.replace("_", " "),
            _seconds(stage.since_first_seconds),
            Text(took, "red") if stage.over_budget else took,
            _seconds(stage.budget_seconds),
        )
    table.add_section()
    table.add_row("total", "", _seconds(total_seconds(record)), "")
    return table


def _evidence(record: IncidentRecord, heard: dict[str, str]) -> Table:
    names = heard | {member.incarnation: member.name for member in record.suspected}
    table = Table("evidence", "of", "says", "detail")
    for item in record.evidence:
        of = names.get(item.incarnation, item.incarnation[:SHOWN_OF_AN_ID])
        table.add_row(item.kind, of, _witness(item, names), item.detail)
    return table


def _witness(item: Evidence, names: dict[str, str]) -> str:
    """Who says so: a member by its name; only node_watchers suspect, by an instance's name."""
    if item.kind in get_args(SuspicionReason) and item.witness != "adjudicator":
        return "node_watcher"
    return names.get(item.witness, item.witness[:SHOWN_OF_AN_ID])


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


async def _heard(bus: Bus, record: IncidentRecord) -> Heard:
    rulings, names = [], {}
    async for received in stored_facts(bus):
        match received.message:
            case VerdictReached() as ruling if ruling.incident == record.id:
                rulings.append(ruling)
            case MemberEvent(member=member):
                names[member.incarnation] = member.name
    return Heard(tuple(rulings), names)


async def _waiting_for(bus: Bus, record: IncidentRecord) -> str:
    query = JobStatus(job=record.job)
    try:
        return (await bus.ask(query, JobStatusReply, timeout_seconds=ASK_SECONDS)).waiting_for
    except TransientBusError:
        return UNKNOWN
