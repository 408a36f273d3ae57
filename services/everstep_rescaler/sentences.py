"""What became of an incident, in one sentence for who describes the Job; pure."""

from typing import Final, assert_never

from everstep_contract.identity import Member
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_contract.verdicts import EvidenceKind

NAMED: Final = 4
"""Members that are named; of more only the number is told."""
CAUSES: Final[tuple[tuple[frozenset[EvidenceKind], str], ...]] = (
    (frozenset({"planned"}), "asked to go"),
    (frozenset({"hardware_fault"}), "hardware fault"),
    (frozenset({"fenced"}), "node gone"),
    (frozenset({"node_rebooted"}), "node rebooted"),
    (frozenset({"node_not_ready"}), "node not ready"),
    (frozenset({"left"}), "left"),
    (frozenset({"pod_terminated", "pod_deleted"}), "pod ended"),
    (frozenset({"connection_stale", "probe_silent"}), "node silent"),
    (frozenset({"probe_refused", "connection_closed"}), "processes died"),
    (frozenset({"worker_exited"}), "worker died"),
)
"""The first that the evidence has something of names the cause."""


def incident_reason(incident: IncidentRecord) -> str:
    """The Event's reason; empty where nothing happened that people should read of."""
    match incident.outcome:
        case None | "dismissed":
            return ""
        case "resumed":
            return "EverstepHealed"
        case "holding":
            return "EverstepHolding"
        case "given_up":
            return "EverstepGaveUp"
        case _:
            assert_never(incident.outcome)


def is_bad(incident: IncidentRecord) -> bool:
    """Whether somebody may have to do something."""
    return incident.outcome in ("holding", "given_up")


def incident_sentence(incident: IncidentRecord, record: JobRecord | None) -> str:
    """The sentence. ``record``: the job's, for how many go on, if it still is of this incident."""
    what, where = _what(incident), f"(incident {incident.id})"
    members = _members(incident, record)
    match incident.outcome:
        case "resumed":
            seconds = _first_step_seconds(incident)
            first = f", first step after {seconds:.1f} s" if seconds is not None else ""
            lost = incident.steps_lost
            steps = f", {lost} steps lost" if lost is not None else ""
            return f"{what}; {members}{steps}{first} {where}"
        case "holding":
            return f"{what}; {members}, and the job holds: {incident.reason} {where}"
        case "given_up":
            why, again = f"everstep incident {incident.id}", f"everstep status {incident.job}"
            return f"Gave up: {incident.reason}; why: {why}; how to go on: {again}"
        case _:
            return ""


def _what(incident: IncidentRecord) -> str:
    condemned = {item.incarnation for item in incident.evidence}
    lost = [one for one in incident.suspected if one.incarnation in condemned]
    if not lost or incident.verdict == "restart_workers":
        return f"Restarted workers: {incident.reason}"
    return f"Lost {_named(lost)} ({_cause(incident)})"


def _named(members: list[Member]) -> str:
    if len(members) > NAMED:
        return f"{len(members)} members"
    listed = ", ".join(f"{one.name} on {one.node}" for one in members)
    return f"member{'s' if len(members) > 1 else ''} {listed}"


def _cause(incident: IncidentRecord) -> str:
    kinds = {item.kind for item in incident.evidence}
    return next((word for some, word in CAUSES if some & kinds), "not heard of any more")


def _members(incident: IncidentRecord, record: JobRecord | None) -> str:
    if record is None or record.generation != incident.generation_after:
        return "the others go on"
    return f"{len(record.seats)} of {record.gang.max_member} go on"


def _first_step_seconds(incident: IncidentRecord) -> float | None:
    first, last = incident.milestones.get("noticed"), incident.milestones.get("first_new_step")
    return max((last - first).total_seconds(), 0.0) if first and last else None
