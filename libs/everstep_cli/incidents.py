"""`everstep incidents` and `everstep incident ID`: what failed, and where the time went."""

import json
import sys
from typing import Annotated, Final

import typer
from everstep_bus.interface import Bus
from everstep_contract.facts.job import VerdictReached
from everstep_contract.layout import INCIDENTS
from everstep_contract.queries import JobStatus, JobStatusReply
from everstep_contract.record import IncidentRecord
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from everstep_cli.access import (
    ASK_SECONDS,
    DEFAULT_NATS_URL,
    Access,
    AsJson,
    Credentials,
    NatsUrl,
    Store,
    with_bus,
)
from everstep_cli.errors import CommandError
from everstep_cli.events import stored_facts
from everstep_cli.terminal import output
from everstep_cli.timeline import timeline, total_seconds

IncidentId = Annotated[str, typer.Argument(help="An id that `everstep incidents` lists.")]

SHOWN_OF_AN_ID: Final = 12


def incidents(
    *,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """List incidents, oldest first."""

    async def show(bus: Bus) -> None:
        found = await all_incidents(bus)
        if as_json:
            listed = [incident.model_dump(mode="json") for incident in found]
            sys.stdout.write(json.dumps(listed) + "\n")
        else:
            output().print(incident_list(found))

    with_bus(show, Access(nats_url, credentials, store))


def incident(
    incident_id: IncidentId,
    *,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """Explain one incident: timeline, evidence, rule, what was rejected, what it waits for."""

    async def show(bus: Bus) -> None:
        found = {record.id: record for record in await all_incidents(bus)}
        if incident_id not in found:
            raise CommandError(f"no incident {incident_id!r}; `everstep incidents` lists them")
        record = found[incident_id]
        rulings = await _rulings(bus, record)
        waiting = await _waiting_for(bus, record)
        if as_json:
            sys.stdout.write(json.dumps(explanation(record, rulings, waiting)) + "\n")
        else:
            output().print(incident_view(record, rulings, waiting))

    with_bus(show, Access(nats_url, credentials, store))


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


def incident_view(
    record: IncidentRecord, rulings: tuple[VerdictReached, ...], waiting: str
) -> RenderableType:
    """One incident for people."""
    suspects = ", ".join(f"{member.name} on {member.node}" for member in record.suspected)
    lines: list[RenderableType] = [
        Text(f"{record.id}: {suspects}", "bold"),
        Text(f"outcome: {record.outcome or 'open'}; {record.reason}"),
        _stages(record),
        _evidence(record),
        *(Text(f"ruled {ruling.verdict.kind}: {ruling.reason}") for ruling in rulings),
    ]
    if waiting:
        lines.append(Text(f"waits for: {waiting}", "yellow"))
    return Group(*lines)


def _stages(record: IncidentRecord) -> Table:
    table = Table("stage", "at", "took", "budget")
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


def _evidence(record: IncidentRecord) -> Table:
    names = {member.incarnation: member.name for member in record.suspected}
    table = Table("evidence", "of", "says", "detail")
    for item in record.evidence:
        of = names.get(item.incarnation, item.incarnation[:SHOWN_OF_AN_ID])
        table.add_row(item.kind, of, item.witness[:SHOWN_OF_AN_ID], item.detail)
    return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f} s"


async def _rulings(bus: Bus, record: IncidentRecord) -> tuple[VerdictReached, ...]:
    found = [
        received.message
        async for received in stored_facts(bus)
        if isinstance(received.message, VerdictReached)
    ]
    return tuple(ruling for ruling in found if ruling.incident == record.id)


async def _waiting_for(bus: Bus, record: IncidentRecord) -> str:
    if record.outcome is not None:
        return ""
    query = JobStatus(job=record.job)
    return (await bus.ask(query, JobStatusReply, timeout_seconds=ASK_SECONDS)).waiting_for
