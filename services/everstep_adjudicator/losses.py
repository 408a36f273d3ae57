"""Members, workers and groups that failed: who goes on without whom (R11, R13, R18, R20, R21)."""

from dataclasses import replace

from everstep_contract.identity import Seat
from everstep_contract.record import JobRecord
from everstep_contract.verdicts import (
    AwaitReplacement,
    Evidence,
    GiveUp,
    RestartWorkers,
    Shrink,
    Swap,
    Verdict,
)

from everstep_adjudicator import incidents
from everstep_adjudicator.actions import Decision, Later, Rule
from everstep_adjudicator.case import Case, listed
from everstep_adjudicator.evidence import Judgement, hearing
from everstep_adjudicator.forming import Draft, candidates, record_of, succession_is_safe
from everstep_adjudicator.model import MemberView
from everstep_adjudicator.sizing import gang


def rule_on_losses(case: Case) -> Decision | Later | None:
    """Members are lost: the survivors go on, with spares if any, or hold.

    Where none survives and spares do not make a full gang, the job holds as well: its new members
    begin as a first gang does.
    """
    record = case.running
    if record is None:
        return None
    lost = _lost(case, record)
    if not lost:
        return _awaited_evidence(case)
    if (pause := _pause(case, record, min(j.condemned_at or 0.0 for j in lost))) is not None:
        return pause
    names = listed(j.seat.member.name for j in lost)
    survivors = tuple(s for s in record.seats if s not in {j.seat for j in lost})
    spec = gang(case.view)
    assert spec is not None, "a record has a gang"
    room = max(spec.max_member - len(survivors), 0)
    added = candidates(case.view, case.policy, case.now)[:room]
    least = spec.min_member if survivors else spec.max_member
    seats = (*survivors, *added) if len(survivors) + len(added) >= least else survivors
    if not succession_is_safe(case.view, seats, lost):
        return Later(None, f"no proof that generation {record.generation} can step no more")
    verdict = _verdict_on_loss(case, lost, seats, survivors)
    reason = f"lost {names}; {len(survivors)} survivors, min_member {spec.min_member}"
    return _on_failure(case, Draft(verdict, seats, reason, lost=lost))


def _verdict_on_loss(
    case: Case, lost: tuple[Judgement, ...], seats: tuple[Seat, ...], survivors: tuple[Seat, ...]
) -> Verdict:
    spec = gang(case.view)
    assert spec is not None, "a record has a gang"
    gone = tuple(j.incarnation for j in lost)
    if len(seats) < spec.min_member:
        return AwaitReplacement(lost=gone, wait_seconds=case.policy.hold_seconds)
    added = tuple(seat.member.incarnation for seat in seats[len(survivors) :])
    return Swap(lost=gone, added=added) if added else Shrink(lost=gone)


def _lost(case: Case, record: JobRecord) -> tuple[Judgement, ...]:
    """Who is condemned, and who has not joined in time (R18), in rank order."""
    condemned = {j.incarnation: j for j in case.condemned}
    for judgement in _absent(case, record):
        condemned.setdefault(judgement.incarnation, judgement)
    finishing = case.view.finished_at
    if finishing is not None and not _past(case, finishing + case.policy.finish_seconds):
        return ()
    return tuple(
        condemned[seat.member.incarnation]
        for seat in record.seats
        if seat.member.incarnation in condemned
    )


def _absent(case: Case, record: JobRecord) -> tuple[Judgement, ...]:
    """Who has not joined at the deadline: counted from the order's receipt, never while blind."""
    view, ordered_at = case.view, case.view.ordered_at
    if record.phase != "decided" or ordered_at is None or view.blind(case.now):
        return ()
    deadline = ordered_at + record.durations.form_seconds
    if not _past(case, deadline) or not hearing(view, case.policy, case.now):
        return ()
    detail = f"not at generation {record.generation}'s barrier in time"
    return tuple(
        replace(
            judgement,
            condemned_at=deadline,
            evidence=(
                *judgement.evidence,
                Evidence(
                    kind="not_joined",
                    incarnation=judgement.incarnation,
                    witness="adjudicator",
                    detail=detail,
                ),
            ),
        )
        for judgement in case.judgements
        if not case.joined(judgement.incarnation)
    )


def _awaited_evidence(case: Case) -> Later | None:
    waits = [j.later_at for j in case.judgements if j.later_at is not None]
    if not waits:
        return None
    return Later(min(waits), "a step, or its absence, of a silent member")


def _pause(case: Case, record: JobRecord, condemned_at: float) -> Later | None:
    """Losses close together make few generations (EC-43); a single one waits for nothing."""
    settled = condemned_at + case.settle_seconds
    if case.undecided and not _past(case, settled):
        return Later(settled, "evidence about members that fell silent at the same time")
    if record.phase in ("decided", "formed"):
        pause = case.policy.supersede_pause_seconds(case.unresumed)
        ready = case.view.written_at + pause
        if not _past(case, ready):
            return Later(ready, f"more losses: generation {record.generation} is too young to go")
    return None


def rule_on_failed_workers(case: Case) -> Decision | Later | None:
    """Workers died on members that live: the same members, a new generation."""
    record = case.running
    if record is None or case.condemned or case.view.finished_at is not None:
        return None
    since = _failed_workers(case)
    if not since:
        return None
    if (pause := _pause(case, record, min(since.values()))) is not None:
        return pause
    failed = tuple(seat for seat in record.seats if seat.member.incarnation in since)
    names = listed(seat.member.name for seat in failed)
    verdict = RestartWorkers(failed=tuple(seat.member.incarnation for seat in failed))
    return _on_failure(case, Draft(verdict, record.seats, f"workers died on {names}"))


def _failed_workers(case: Case) -> dict[str, float]:
    """Members whose workers died in this generation, by when that was known."""
    since: dict[str, float] = {}
    for stamped in case.view.exits:
        fact = stamped.fact
        if fact.classified not in ("finished", "hardware"):
            since.setdefault(fact.member.incarnation, stamped.heard)
    for member in _fallen_back(case, "starting"):
        since.setdefault(member.report.member.incarnation, member.phase_since)
    return since


def _fallen_back(case: Case, phase: str) -> list[MemberView]:
    """Members that formed and lastingly say that they have not: a fact about it was lost."""
    record = case.running
    if record is None or record.phase == "decided":
        return []
    patience = case.policy.collective_settle_seconds
    seats = (case.view.members.get(incarnation) for incarnation in record.incarnations)
    return [
        member
        for member in seats
        if member is not None
        and member.report.phase == phase
        and case.view.is_current(member.report.generation, member.report.verdict_id)
        and member.live(case.now)
        and _past(case, max(member.phase_since, case.view.phase_at) + patience)
    ]


def rule_on_broken_groups(case: Case) -> Decision | Later | None:
    """A group broke and nobody is lost: the same members form again (R13)."""
    record = case.running
    if record is None or case.condemned or case.view.finished_at is not None:
        return None
    since = [stamped.heard for stamped in case.view.collective_failures]
    since += [member.phase_since for member in _fallen_back(case, "leaving")]
    if not since:
        return _first_step_overdue(case, record)
    settled = min(since) + case.policy.collective_settle_seconds
    if not _past(case, settled):
        return Later(settled, "whoever broke the group of this generation")
    if case.undecided:
        return Later(None, "evidence about silent members of a broken group")
    patience = settled + case.policy.hearing_seconds
    if _unheard(case, record) and not _past(case, patience):
        return Later(patience, "a detector's word about members that report no more")
    reason = "the group broke and all its members live"
    return _on_failure(case, _again(case, record, reason))


def _unheard(case: Case, record: JobRecord) -> bool:
    """Whether some member's reports stopped: dead perhaps, while the watcher is away itself."""
    seats = (case.view.members.get(incarnation) for incarnation in record.incarnations)
    return any(member is None or not member.live(case.now) for member in seats)


def _first_step_overdue(case: Case, record: JobRecord) -> Decision | Later | None:
    if record.phase != "formed":
        return None
    deadline = case.view.phase_at + case.policy.first_step_seconds
    if not _past(case, deadline) or not hearing(case.view, case.policy, case.now):
        return Later(deadline, f"the first step of generation {record.generation}")
    reason = f"formed, and no step within {case.policy.first_step_seconds:g} s"
    return _on_failure(case, _again(case, record, reason))


def rule_on_forming(case: Case) -> Decision | Later | None:
    """All have joined and yet no group: the same members, another store (R17, R18)."""
    record, ordered_at = case.running, case.view.ordered_at
    if record is None or record.phase != "decided" or ordered_at is None or case.condemned:
        return None
    deadline = ordered_at + record.durations.form_seconds
    if not _past(case, deadline):
        return Later(deadline, f"members of generation {record.generation} to form")
    joined = [case.joined(incarnation) for incarnation in record.incarnations]
    if not all(joined):
        return Later(None, "members that have not joined to be heard of")
    reason = f"all joined, none formed within {record.durations.form_seconds:g} s"
    return _on_failure(case, _again(case, record, reason))


def _again(case: Case, record: JobRecord, reason: str) -> Draft:
    other_store = record.phase == "decided"
    return Draft(RestartWorkers(failed=()), record.seats, reason, other_store=other_store)


def _on_failure(case: Case, draft: Draft) -> Decision:
    """Rule on a failure, unless budget or patience is spent (R27)."""
    view, policy = case.view, case.policy
    incident = view.incident or incidents.opened(case)
    failures = incidents.failures_without_progress(case, draft.lost)
    planned = bool(draft.lost) and all(incidents.is_planned(view, one) for one in draft.lost)
    unspent = case.unspent + (1 if planned else 0)
    draft = replace(
        draft,
        incident=incident.id,
        failures_without_progress=failures,
        unspent_generations=unspent,
    )
    spent = ""
    if failures >= policy.no_progress_limit:
        spent = f"{failures} incidents without a step beyond {view.highest_step}"
    elif case.unresumed - unspent >= policy.restart_budget:
        spent = f"{case.unresumed} generations in a row completed no step"
    if spent:
        draft = replace(draft, verdict=GiveUp(), reason=f"{spent}; {draft.reason}")
    record = record_of(view, policy, case.now, draft)
    incident = incidents.ruled(case, incident, record, draft.lost)
    record = record.model_copy(update={"incident_milestones": incident.milestones})
    return Decision(Rule(record, incident), record.reason)


def _past(case: Case, instant: float) -> bool:
    return case.now.monotonic >= instant
