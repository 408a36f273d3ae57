"""Events in words: one line each, for people who watch."""

from typing import Final

from everstep_contract.base import Event
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import (
    ClusterWritten,
    JobObserved,
    OrderIssued,
    PodObserved,
    StepAdvanced,
    VerdictReached,
)
from everstep_contract.facts.member import (
    MemberEvent,
    MemberFormed,
    MemberJoined,
    MemberLeft,
    MemberSuspected,
)
from everstep_contract.facts.node import NodeEvent, NodeObserved
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited

MAX_DETAIL: Final = 120
"""Characters of what an event says beyond its kind and subject; errors of torch have pages."""


def kind_of(event: Event) -> str:
    """The event's type without prefix and version, e.g. ``member suspected``."""
    _, entity, fact, _ = event.TYPE.split(".")
    return f"{entity} {fact}".replace("_", " ")


def line_of(event: Event) -> str:
    """One line: when, what, about whom, and what matters of it."""
    clock = event.at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    detail = detail_of(event).partition("\n")[0][:MAX_DETAIL]
    columns = (clock, f"{kind_of(event):<24}", f"{subject_of(event):<16}", detail)
    return "  ".join(columns).rstrip()


def detail_of(event: Event) -> str:
    """What the event says beyond its kind and subject."""
    if isinstance(event, MemberEvent):
        return _member_detail(event)
    if isinstance(event, NodeObserved):
        return f"ready: {event.ready}"
    return _job_detail(event)


def _job_detail(event: Event) -> str:
    match event:
        case VerdictReached():
            return f"{event.verdict.kind}, generation {event.generation}: {event.reason}"
        case OrderIssued(order=order):
            return f"{order.state}, generation {order.generation}, {len(order.seats)} members"
        case StepAdvanced():
            return f"step {event.step}, generation {event.generation}, {event.step_seconds:.3f} s"
        case ClusterWritten():
            return f"{event.verb} {event.target}: {event.outcome} {event.detail}"
        case PodObserved():
            return f"{event.pod} {event.phase} {event.reason}"
        case JobObserved():
            return f"at least {event.gang.min_member}, generation {event.annotated_generation}"
        case IncidentOpened(incident=incident):
            return ", ".join(member.name for member in incident.suspected)
        case IncidentEnded(incident=incident):
            return f"{incident.outcome}: {incident.reason}"
        case _:
            return str(getattr(event, "reason", "") or getattr(event, "detail", ""))


def _member_detail(event: MemberEvent) -> str:
    match event:
        case MemberSuspected():
            return f"{event.reason} after {event.silence_seconds:.2f} s, says {event.witness}"
        case MemberJoined():
            return f"generation {event.generation}, state {event.report.version}"
        case MemberFormed():
            return f"generation {event.generation}, at step {event.agreed_step}"
        case WorkerExited():
            ended = f"signal {event.signal}" if event.signal else f"status {event.exit_code}"
            return f"local rank {event.local_rank}, {ended} ({event.classified})"
        case CollectiveFailed():
            return f"generation {event.generation}: {event.detail}"
        case MemberLeft():
            return f"{event.reason} {event.detail}"
        case _:
            return str(getattr(event, "reason", ""))


def subject_of(event: Event) -> str:
    """The name of the member, node or job that the event is about."""
    if isinstance(event, MemberEvent):
        return event.member.name
    if isinstance(event, NodeEvent):
        return event.node
    job = getattr(event, "job", None)
    return job.name if job else ""
