"""Events in words: one line each, for people who watch."""

from textwrap import shorten
from typing import Final

from everstep_contract.base import Event
from everstep_contract.facts.checkpoint import (
    CheckpointCommitted,
    CheckpointDamaged,
    SaveFailed,
    ShardPrepared,
)
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import (
    ClusterWritten,
    ContainerObserved,
    JobObserved,
    OrderIssued,
    PodObserved,
    RescaleAnswered,
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

MAX_DETAIL: Final = 160
"""Characters, in whole words, that an event says beyond its kind and subject; torch says pages."""

MIB: Final = 1 << 20


def kind_of(event: Event) -> str:
    """The event's type without prefix and version, e.g. ``member suspected``."""
    _, entity, fact, _ = event.TYPE.split(".")
    return f"{entity} {fact}".replace("_", " ")


def line_of(event: Event) -> str:
    """One line: when, what, about whom, and what matters of it."""
    clock = event.at.astimezone().strftime("%H:%M:%S.%f")[:-3]
    detail = shorten(detail_of(event).partition("\n")[0], MAX_DETAIL, placeholder=" ...")
    columns = (clock, f"{kind_of(event):<24}", f"{subject_of(event):<16}", detail)
    return "  ".join(columns).rstrip()


def detail_of(event: Event) -> str:
    """What the event says beyond its kind and subject."""
    if isinstance(event, MemberEvent):
        return _member_detail(event)
    if isinstance(event, NodeObserved):
        return _node_detail(event)
    if isinstance(event, RescaleAnswered):
        return f"{event.answer} {event.detail}"
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
            return _pod_detail(event)
        case JobObserved():
            return f"at least {event.gang.min_member}, generation {event.annotated_generation}"
        case CheckpointCommitted(record=record):
            return f"{record.checkpoint}, {record.total_bytes / MIB:.0f} MiB"
        case IncidentOpened(incident=incident):
            return ", ".join(member.name for member in incident.suspected)
        case IncidentEnded(incident=incident):
            return f"{incident.outcome}: {incident.reason}"
        case _:
            return str(getattr(event, "reason", "") or getattr(event, "detail", ""))


def _node_detail(event: NodeObserved) -> str:
    cordon = f"cordoned by {event.cordoned_by or 'others'}" if event.cordoned else ""
    said = (
        "deleted" if event.deleted else f"ready: {event.ready} {event.ready_reason}".rstrip(),
        "out of service" if event.out_of_service else "",
        f"leaving: {event.leaving}" if event.leaving else "",
        cordon,
        *(f"{one.type} {one.reason}".rstrip() for one in event.conditions),
    )
    return "; ".join(filter(None, said))


def _pod_detail(event: PodObserved) -> str:
    ending = "deleted" if event.deleted else "terminating" if event.terminating else event.phase
    cause = f"{event.cause}{', as planned' if event.planned else ''}" if event.cause else ""
    said = (f"{event.pod} {ending}", cause, event.reason, *map(_container_detail, event.containers))
    return "; ".join(filter(None, said))


def _container_detail(one: ContainerObserved) -> str:
    code = "" if one.exit_code is None else f"exit code {one.exit_code}"
    again = f"restarted {one.restarts} times" if one.restarts else ""
    why = ", ".join(filter(None, (one.reason, code, again)))
    return f"{one.name} {one.state}: {why}" if why else f"{one.name} {one.state}"


def _member_detail(event: MemberEvent) -> str:
    match event:
        case MemberSuspected():
            silence = f"{event.silence_seconds:.2f} s"
            silent = "" if silence == "0.00 s" else f" after {silence}"
            return f"{event.reason}{silent}, says node_watcher"
        case MemberJoined():
            version = event.report.version
            state = "no state yet" if version < 0 else f"state {version}"
            return f"generation {event.generation}, {state}"
        case MemberFormed():
            loaded = event.source in ("memory", "disk")
            source = f", from {event.source} {event.checkpoint}".rstrip() if loaded else ""
            return f"generation {event.generation}, at step {event.agreed_step}{source}"
        case ShardPrepared() | SaveFailed():
            trouble = f", {event.trouble}" if isinstance(event, SaveFailed) else ""
            return f"{event.checkpoint}, {event.kind} {event.shard}{trouble}"
        case CheckpointDamaged():
            return f"{event.checkpoint}: {event.detail}"
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
