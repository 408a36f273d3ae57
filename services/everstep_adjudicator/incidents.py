"""Incidents: one failure of one job, from the first suspicion to its end (R27)."""

import hashlib
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, get_args

from everstep_contract.identity import Member
from everstep_contract.record import IncidentRecord, JobRecord, MilestoneName, Outcome
from everstep_contract.verdicts import EvidenceKind
from everstep_runtime.clock import Moment

from everstep_adjudicator.actions import Decision, File, Later
from everstep_adjudicator.case import Case, listed
from everstep_adjudicator.evidence import Judgement
from everstep_adjudicator.model import JobView

MILESTONES: Final[tuple[MilestoneName, ...]] = get_args(MilestoneName)
"""In the order in which they are reached."""
MACHINES_FAULTS: Final[frozenset[EvidenceKind]] = frozenset(
    {"hardware_fault", "fenced", "node_rebooted"}
)
FILING_SECONDS: Final = 0.05
"""An incident is filed so long after the first question: a proof that comes sooner need not wait
until it is stored."""
REASSERTED_SECONDS: Final = 5.0
"""Within this long a detector repeats what it stands by (every 3 s) to a new leader (R10)."""
LATE_FACTS_SECONDS: Final = 5.0
"""How long the books of a healed incident stay open for facts that its first step overtook."""


def opened(case: Case) -> IncidentRecord:
    """A new incident about everything that is known now."""
    view = case.view
    return IncidentRecord(
        id=_id(view),
        job=view.job,
        job_uid=view.record.job_uid if view.record else "",
        opened_at=case.now.at,
        suspected=_suspects(case),
        generation_before=view.generation,
        milestones={"noticed": min(_told(view), default=case.now.at)},
    )


def _id(view: JobView) -> str:
    """Readable, and never the same for two incidents of any job or any leader."""
    uid = view.record.job_uid if view.record else ""
    parts = (view.job.token, uid, view.lease_revision, view.generation, view.incidents_ended)
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=5).hexdigest()
    return f"{view.job.name[:200]}-{view.generation}-{digest}"


def _suspects(case: Case) -> tuple[Member, ...]:
    """Members something is known against, in rank order."""
    view = case.view
    accused = {
        *(s.incarnation for s in view.suspicions.values() if not (s.cleared and s.booked)),
        *(stamped.fact.member.incarnation for stamped in view.exits),
        *(judgement.incarnation for judgement in case.condemned),
    }
    return tuple(s.member for s in view.seats if s.member.incarnation in accused)


def _told(view: JobView) -> list[datetime]:
    """When somebody saw what speaks against members of the current generation."""
    seated = {seat.member.incarnation for seat in view.seats}
    return [
        *(
            s.at
            for s in view.suspicions.values()
            if not (s.cleared and s.booked) and s.incarnation in seated
        ),
        *(stamped.fact.at for stamped in view.exits),
        *(stamped.fact.at for stamped in view.collective_failures),
        *(left.at for incarnation, left in view.left.items() if incarnation in seated),
    ]


def ruled(
    case: Case, incident: IncidentRecord, record: JobRecord, lost: tuple[Judgement, ...]
) -> IncidentRecord:
    """The incident after ``record``'s verdict; of a superseded one the first decision counts."""
    since = min((j.condemned_at for j in lost if j.condemned_at), default=case.now.monotonic)
    age = timedelta(seconds=max(case.now.monotonic - since, 0.0))
    noticed = incident.milestones.get("noticed", incident.opened_at)
    milestones: dict[MilestoneName, datetime] = {
        "noticed": noticed,
        "confirmed": incident.milestones.get("confirmed", max(case.now.at - age, noticed)),
        "decided": incident.milestones.get("decided", record.decided_at),
    }
    return _with_verdict(incident, record).model_copy(
        update={"milestones": milestones, "suspected": _all_suspected(case, incident)}
    )


def _with_verdict(incident: IncidentRecord, record: JobRecord) -> IncidentRecord:
    return incident.model_copy(
        update={
            "verdict": record.verdict.kind,
            "reason": record.reason,
            "evidence": record.evidence or incident.evidence,
            "generation_after": record.generation,
        }
    )


def _all_suspected(case: Case, incident: IncidentRecord) -> tuple[Member, ...]:
    known = {member.incarnation for member in incident.suspected}
    newly = (member for member in _suspects(case) if member.incarnation not in known)
    return (*incident.suspected, *newly)


def failures_without_progress(case: Case, lost: tuple[Judgement, ...]) -> int:
    """Incidents in a row without a newer step, this one included.

    Neither what was planned counts nor a machine's proven fault: another try may well succeed,
    which is not so of a script that fails at the same step again (EC-54).
    """
    view, record = case.view, case.view.record
    assert record is not None, "a failure is one of a generation"
    excused = bool(lost) and all(is_planned(view, j) or _is_machines_fault(j) for j in lost)
    same = view.incident is not None and record.incident == view.incident.id
    if excused or same:
        return record.failures_without_progress
    if view.highest_step > record.failed_at_step:
        return 0
    return record.failures_without_progress + 1


def is_planned(view: JobView, lost: Judgement) -> bool:
    """Whether the member was asked to go: drained, evicted, preempted, or done."""
    return bool(view.asked_to_go(lost.seat.member))


def _is_machines_fault(lost: Judgement) -> bool:
    return any(item.kind in MACHINES_FAULTS for item in lost.evidence)


def keep_books(case: Case) -> Decision | Later | None:
    """Open, bring up to date or end the incident; the last rule, for nothing waits for it."""
    view = case.view
    if view.incident is None:
        return _open(case)
    incident = _up_to_date(case, view.incident)
    if (end := _end(case, incident)) is not None:
        outcome, reason = end
        return Decision(File(_ended(case, incident, outcome, reason)), reason)
    if incident != view.filed:
        return Decision(File(incident), f"incident {incident.id} goes on")
    ends = (REASSERTED_SECONDS, case.policy.blind_seconds, case.policy.unresolved_seconds)
    instants = (*(view.incident_at + end for end in ends), view.phase_at + LATE_FACTS_SECONDS)
    ahead = [instant for instant in instants if instant > case.now.monotonic]
    return Later(min(ahead, default=None), f"the end of incident {incident.id}")


def _rebuilt(record: JobRecord) -> IncidentRecord:
    """The incident a record was ruled under, when we died before it was stored (R6)."""
    incident = IncidentRecord(
        id=record.incident or "",
        job=record.job,
        job_uid=record.job_uid,
        opened_at=record.decided_at,
        suspected=tuple(exclusion.member for exclusion in record.excluded),
        generation_before=max(record.generation - 1, 0),
        milestones={"noticed": record.decided_at, **record.incident_milestones},
    )
    return _with_verdict(incident, record)


def stray(view: JobView, stored: IncidentRecord, now: Moment) -> IncidentRecord | None:
    """How an incident that is stored as open, and is not, should be stored; None: it is open.

    Its last write was lost with a disk, or two leaders opened one each.
    """
    current, last = view.incident, view.last_ended
    if stored.outcome is not None or (current is not None and current.id == stored.id):
        return None
    if last is not None and last.id == stored.id:
        return last
    reason = "left open by a write that was lost"
    return stored.model_copy(update={"outcome": "dismissed", "reason": reason, "ended_at": now.at})


def _open(case: Case) -> Decision | Later | None:
    record, last = case.view.record, case.view.last_ended
    if record is not None and record.incident not in (None, last.id if last else None):
        return Decision(File(_rebuilt(record)), f"incident {record.incident} was not stored")
    something = _told(case.view) or case.condemned
    if case.running is None or not something or case.view.finished_at is not None:
        return None
    asked = max((p.asked_at for p in case.view.probing.values() if p.pending), default=0.0)
    if case.now.monotonic < asked + FILING_SECONDS:
        return Later(asked + FILING_SECONDS, "first answers, before books are opened")
    names = listed(member.name for member in _suspects(case))
    return Decision(File(opened(case)), f"suspected: {names or 'nobody yet'}")


def _up_to_date(case: Case, incident: IncidentRecord) -> IncidentRecord:
    """With the milestones and the losses of the generation that shall heal it."""
    view, record = case.view, case.view.record
    incident = incident.model_copy(update={"suspected": _all_suspected(case, incident)})
    if record is None or record.incident != incident.id:
        return incident
    lost = [formed.steps_lost for formed in view.formed.values()]
    milestones = {"decided": record.decided_at, **incident.milestones, **view.stamps}
    return _with_verdict(incident, record).model_copy(
        update={
            "milestones": milestones,
            "steps_lost": max(lost) if lost else incident.steps_lost,
        }
    )


def _end(case: Case, incident: IncidentRecord) -> tuple[Outcome, str] | None:
    """How the incident ends, and why; None while it goes on."""
    record = case.view.record
    if record is None:
        return "dismissed", "the job is gone"
    if record.phase == "ended":
        gave_up = record.verdict.kind == "give_up"
        return ("given_up", record.reason) if gave_up else ("dismissed", "the job has ended")
    if record.phase == "holding":
        return ("holding", record.reason) if _held(case, record) else None
    if incident.verdict is None:
        return _end_without_ruling(case, incident)
    return ("resumed", record.reason) if _resumed(case, record) else None


def _resumed(case: Case, record: JobRecord) -> bool:
    """Whether the new generation steps and everybody has told how it came there.

    A leader that has just taken over may hear of the first step before it hears of the forming.
    """
    told = case.view.formed.keys() >= set(record.incarnations)
    late = case.now.monotonic >= case.view.phase_at + LATE_FACTS_SECONDS
    return record.phase == "resumed" and (told or late)


def _held(case: Case, record: JobRecord) -> bool:
    """Whether everybody parked, or has had the time for it."""
    view = case.view
    members = (view.members.get(incarnation) for incarnation in record.incarnations)
    parked = all(
        member is not None
        and member.report.generation == record.generation
        and member.report.phase == "holding"
        for member in members
    )
    return parked or case.now.monotonic >= view.phase_at + record.durations.form_seconds


def _end_without_ruling(case: Case, incident: IncidentRecord) -> tuple[Outcome, str] | None:
    view, policy = case.view, case.policy
    if not _told(view) and not case.condemned:
        cleared = _exoneration(view, incident)
        if cleared or case.now.monotonic >= view.incident_at + REASSERTED_SECONDS:
            return "dismissed", cleared or "nothing is said against anybody any more"
        return None  # taken over from a leader that died: what still stands will be said again
    if view.blind(case.now):
        since = max(view.blind_since or 0.0, view.incident_at)
        if case.now.monotonic >= since + policy.blind_seconds:
            return "holding", "observer_blind: the watcher cannot tell silence from its own"
    if case.now.monotonic >= view.incident_at + policy.unresolved_seconds:
        return "holding", "neither proven nor cleared in time"
    return None


def _exoneration(view: JobView, incident: IncidentRecord) -> str:
    suspected = {member.incarnation: member.name for member in incident.suspected}
    cleared = {
        f"{suspected[s.incarnation]}: {s.cleared}"
        for s in view.suspicions.values()
        if s.cleared and s.incarnation in suspected
    }
    return listed(sorted(cleared), "; ")


def _ended(case: Case, incident: IncidentRecord, outcome: Outcome, reason: str) -> IncidentRecord:
    update = {
        "outcome": outcome,
        "ended_at": case.now.at,
        "reason": reason,
        "milestones": _in_order(incident),
    }
    if outcome == "dismissed" and incident.verdict is None:
        update["verdict"] = "tolerate"
    return incident.model_copy(update=update)


def _in_order(incident: IncidentRecord) -> dict[MilestoneName, datetime]:
    """Milestones told by different machines, none before the one it follows."""
    known = [
        (name, incident.milestones[name]) for name in MILESTONES if name in incident.milestones
    ]
    ordered = dict(known[:1])
    for (before, _), (name, at) in pairwise(known):
        ordered[name] = max(at, ordered[before])
    return ordered
