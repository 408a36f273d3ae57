"""What each fact changes in the view of a job: (view, fact, now) -> view, without judging it.

Facts come twice, late and in any order; folding one again changes nothing that matters.
"""

from dataclasses import replace
from typing import assert_never

from everstep_contract.base import Event
from everstep_contract.facts.job import (
    JobObserved,
    OrderIssued,
    PodObserved,
    RescaleAnswered,
    StepAdvanced,
)
from everstep_contract.facts.member import (
    MemberEvent,
    MemberFormed,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
    OrderRefused,
)
from everstep_contract.facts.node import NodeObserved, WatcherBlinded, WatcherSighted
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Moment

from everstep_adjudicator import fold_evidence, fold_members
from everstep_adjudicator.actions import (
    Announced,
    Asked,
    Attempted,
    Filed,
    Heard,
    ProbeEnded,
    Quarantined,
    Recorded,
)
from everstep_adjudicator.model import JobView, Progress


def fold(view: JobView, fact: Heard, now: Moment) -> JobView:
    """The view after ``fact``. Pure: same arguments, same view."""
    match fact:
        case MemberReport():
            return fold_members.reported(view, fact, now)
        case Event():
            return _fold_event(view, fact, now)
        case Recorded():
            return _recorded(view, fact, now)
        case Attempted():
            return replace(view, attempts=view.attempts + 1)
        case Announced(verdict_id=verdict_id):
            return replace(view, announced=verdict_id)
        case Filed():
            return _filed(view, fact, now)
        case Asked(probes=probes):
            return fold_evidence.asked(view, probes, now)
        case ProbeEnded():
            return fold_evidence.probe_ended(view, fact, now)
        case Quarantined(nodes=nodes):
            return replace(view, quarantined_nodes=nodes)
        case _:
            assert_never(fact)


def _fold_event(view: JobView, fact: Event, now: Moment) -> JobView:
    match fact:
        case MemberEvent():
            return _fold_member_event(view, fact, now)
        case StepAdvanced():
            return _stepped(view, fact, now)
        case OrderIssued():
            return _ordered(view, fact, now)
        case JobObserved():
            return _observed(view, fact)
        case PodObserved():
            return fold_evidence.pod_observed(view, fact)
        case RescaleAnswered():
            return _rescale_answered(view, fact)
        case NodeObserved():
            return fold_evidence.node_observed(view, fact)
        case WatcherBlinded():
            since = view.blind_since if view.blind(now) else now.monotonic
            return replace(view, blind_since=since, blind_heard=now.monotonic)
        case WatcherSighted():
            return replace(view, blind_since=None)
        case _:
            return view  # other services' facts


def _fold_member_event(view: JobView, fact: MemberEvent, now: Moment) -> JobView:
    match fact:
        case MemberJoined():
            return fold_members.joined(view, fact, now)
        case MemberFormed():
            return fold_members.formed(view, fact, now)
        case MemberLeft():
            return fold_members.left(view, fact, now)
        case MemberSuspected():
            return fold_evidence.suspected(view, fact, now)
        case MemberRecovered():
            return fold_evidence.recovered(view, fact)
        case WorkerExited():
            return fold_evidence.exited(view, fact, now)
        case CollectiveFailed():
            return fold_evidence.collective_failed(view, fact, now)
        case OrderRefused():
            return replace(view, known_generation=max(view.known_generation, fact.generation))
        case _:
            return view  # checkpoints are the indexer's


def _observed(view: JobView, fact: JobObserved) -> JobView:
    known = max(view.known_generation, fact.annotated_generation)
    if fact.deleted:
        deleted = view.deleted_uids | {fact.job_uid}
        return replace(view, deleted_uids=deleted, known_generation=known)
    return replace(view, observed_gang=fact.gang, known_generation=known)


def _rescale_answered(view: JobView, fact: RescaleAnswered) -> JobView:
    """What the rescaler has just read of the Job counts as much as what the watcher saw."""
    view = replace(view, rescale_answer=fact)
    if fact.answer != "done" or fact.size is None or view.observed_gang is None:
        return view
    size = {"max_member": fact.size.replicas, "min_member": fact.size.min_available}
    return replace(view, observed_gang=view.observed_gang.model_copy(update=size))


def _ordered(view: JobView, fact: OrderIssued, now: Moment) -> JobView:
    view = replace(view, known_generation=max(view.known_generation, fact.order.generation))
    if not view.is_current(fact.order.generation, fact.order.verdict_id):
        return view
    view = view.stamped("ordered", fact.at, last=False)
    return replace(
        view, ordered_at=view.ordered_at if view.ordered_at is not None else now.monotonic
    )


def _stepped(view: JobView, fact: StepAdvanced, now: Moment) -> JobView:
    view = replace(view, highest_step=max(view.highest_step, fact.step))
    if not view.is_current(fact.generation, fact.verdict_id):
        return view
    if fact.step > view.progress.step:
        begun = max(view.progress.step_begun, fact.step)
        view = replace(view, progress=Progress(fact.step, begun, now.monotonic))
    return view.stamped("first_new_step", fact.at, last=False)


def _recorded(view: JobView, fact: Recorded, now: Moment) -> JobView:
    """Take over the stored record; what was known of an older generation ends with it."""
    old, new = view.record, fact.record
    known = max(view.known_generation, view.generation, new.generation if new else 0)
    view = replace(view, record=new, revision=fact.revision, known_generation=known)
    if fact.incident is not None:
        view = replace(view, incident=fact.incident)
    if new is None:
        return view
    if new.rescale != (old.rescale if old else None):
        view = replace(view, rescale_at=now.monotonic)
    if old is not None and old.verdict_id == new.verdict_id:
        changed = old.phase != new.phase
        return replace(view, phase_at=now.monotonic if changed else view.phase_at)
    known_still = {*new.incarnations, *view.members}
    view = replace(
        view,
        joined={i: g for i, g in view.joined.items() if i in known_still},
        left={i: f for i, f in view.left.items() if i in known_still},
        formed={},
        written_at=now.monotonic,
        phase_at=now.monotonic,
        ordered_at=None,
        stamps={},
        progress=Progress(since=now.monotonic),
        exits=(),
        collective_failures=(),
        finished_at=None,
    )
    return fold_evidence.rebased(view)


def _filed(view: JobView, fact: Filed, now: Moment) -> JobView:
    """The incident is stored; what stood against members when it ended needs a new reason."""
    incident = fact.incident
    view = fold_evidence.booked(view, {member.incarnation for member in incident.suspected})
    if incident.outcome is not None:
        view = fold_evidence.shelved(view, f"incident {incident.id} ended {incident.outcome}")
        return replace(
            view,
            incident=None,
            filed=None,
            incident_revision=0,
            incidents_ended=view.incidents_ended + 1,
            last_ended=incident,
        )
    known = view.filed is not None and view.filed.id == incident.id
    return replace(
        view,
        incident=incident,
        filed=incident,
        incident_revision=fact.revision,
        incident_at=view.incident_at if known else now.monotonic,
    )
