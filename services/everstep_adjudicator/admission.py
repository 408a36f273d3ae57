"""Who is let in, and when: forming first, growing, holding, suspending (R19, R20)."""

import re
from collections import Counter
from typing import Final

from everstep_contract.identity import GangSpec, Seat
from everstep_contract.record import JobRecord
from everstep_contract.verdicts import (
    AwaitReplacement,
    Form,
    Grow,
    RestartWorkers,
    Suspend,
    Verdict,
)

from everstep_adjudicator.actions import Decision, Later, Rule
from everstep_adjudicator.case import Case, listed
from everstep_adjudicator.evidence import hearing, silent
from everstep_adjudicator.forming import (
    Draft,
    by_operator,
    candidates,
    record_of,
    seat_of,
    succession_is_safe,
)
from everstep_adjudicator.model import MemberView
from everstep_adjudicator.sizing import gang, renamed

MIN_WAIT_SECONDS: Final = 0.001
"""What is left of a hold that is over: its end is ruled on next."""


def rule_on_the_first(case: Case) -> Decision | Later | None:
    """Enough members are ready, and the job has no generation: form one."""
    if case.view.record is not None and not renamed(case.view):
        return None
    ready = _of_one_job(candidates(case.view, case.policy, case.now))
    spec = gang(case.view)
    if spec is None or not ready:
        return None
    if len(ready) < spec.min_member:
        return Later(None, f"{spec.min_member - len(ready)} more members to form a gang")
    return _form(case, spec, ready)


def _form(case: Case, spec: GangSpec, ready: tuple[Seat, ...]) -> Decision | Later:
    """Begin with all of these, who are enough, after a while for the missing ones."""
    if len(ready) < spec.max_member:
        since = sorted(_ready_since(case, seat) for seat in ready)[spec.min_member - 1]
        settled = since + case.policy.form_settle_seconds
        if case.now.monotonic < settled:
            return Later(settled, f"{spec.max_member - len(ready)} more members, for a while")
    seats = tuple(sorted(ready, key=_natural_order)[: spec.max_member])
    return new_generation(case, Form(), seats, f"{len(seats)} ready, min_member {spec.min_member}")


def _of_one_job(ready: tuple[Seat, ...]) -> tuple[Seat, ...]:
    """Members of the job uid with the most members: another one of this name has to wait."""
    uids = Counter(seat.member.job_uid for seat in ready)
    if not uids:
        return ()
    uid = max(uids, key=lambda uid: (uids[uid], uid))
    return tuple(seat for seat in ready if seat.member.job_uid == uid)


def _ready_since(case: Case, seat: Seat) -> float:
    since = case.view.members[seat.member.incarnation].ready_since
    assert since is not None, "a candidate is ready"
    return since


def _natural_order(seat: Seat) -> tuple[list[tuple[int, str]], str]:
    """trainer-2 before trainer-10."""
    parts = re.findall(r"\d+|\D+", seat.member.name)
    numbers = [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
    return numbers, seat.member.incarnation


def rule_on_a_lost_record(case: Case) -> Decision | Later | None:
    """Agents obey what the record does not know: its newest writes were lost with a disk (R5)."""
    view = case.view
    ahead = [member for member in view.members.values() if _is_ahead(case, member)]
    if not ahead or renamed(view):
        return None
    newest = max(member.report.generation for member in ahead)
    unclear = case.condemned or case.undecided or not hearing(view, case.policy, case.now)
    if unclear:
        return Later(None, f"all who obey generation {newest}, which has no record")
    others = sorted(map(seat_of, ahead), key=_natural_order)
    seats = (*view.seats, *(s for s in others if view.seat(s.member.incarnation) is None))
    spec = gang(view)
    assert spec is not None, "its members describe the job"
    reason = f"agents obey generation {newest}, the record knows {view.generation}"
    if len(seats) < spec.min_member:
        return Later(None, f"{reason}; fewer than {spec.min_member} are heard")
    verdict: Verdict = RestartWorkers(failed=()) if view.record else Form()
    return new_generation(case, verdict, tuple(seats[: spec.max_member]), reason)


def _is_ahead(case: Case, member: MemberView) -> bool:
    report, record = member.report, case.view.record
    if report.generation == 0 or not member.live(case.now) or report.phase == "stopped":
        return False
    if report.member.incarnation in case.view.left:
        return False
    if record is None:
        return True
    if report.member.job_uid != record.job_uid:
        return False
    other = report.generation == record.generation and report.verdict_id != record.verdict_id
    return report.generation > record.generation or other


def _living(case: Case) -> list[MemberView]:
    return [member for member in case.view.members.values() if member.live(case.now)]


def rule_on_holding(case: Case) -> Decision | Later | None:
    """Below the floor, or suspended for lack of members: go on as soon as there are enough.

    Where nobody is left who held the state, all are new: they begin as a first gang does.
    """
    record, view = case.holding, case.view
    if record is None or by_operator(record.verdict):
        return None
    spec = gang(view)
    assert spec is not None, "a record has a gang"
    survivors, added = available(case, record)
    seats = (*survivors, *added)[: spec.max_member]
    if len(seats) >= spec.min_member and succession_is_safe(view, seats, case.judgements):
        if not survivors:
            return _form(case, spec, added)
        resumes = record.verdict.kind == "suspend" or not added
        names = tuple(seat.member.incarnation for seat in added)
        verdict: Verdict = Form() if resumes else Grow(added=names)
        return new_generation(
            case, verdict, seats, f"{len(seats)} members, min_member {spec.min_member}"
        )
    missing = f"{max(spec.min_member - len(seats), 0)} more members to reach the floor"
    strangers = sum(member.report.member.job_uid != record.job_uid for member in _living(case))
    if strangers:
        missing += f"; {strangers} of another life of the job wait until {record.job_uid} is over"
    if isinstance(record.verdict, Suspend):
        return Later(None, missing)
    deadline = _hold_ends_at(case, record)
    if case.now.monotonic < deadline:
        return Later(deadline, missing)
    reason = f"no replacement within {record.durations.hold_seconds:g} s"
    return new_generation(case, Suspend(by="deadline"), record.seats, reason)


def _hold_ends_at(case: Case, record: JobRecord) -> float:
    verdict = record.verdict
    if isinstance(verdict, AwaitReplacement):
        return case.view.phase_at + verdict.wait_seconds
    return case.view.phase_at + record.durations.hold_seconds


def hold_seconds_left(case: Case, record: JobRecord) -> float:
    """What is left of the hold; a bit of time even when it is over."""
    return max(_hold_ends_at(case, record) - case.now.monotonic, MIN_WAIT_SECONDS)


def rule_on_losses_while_holding(case: Case) -> Decision | Later | None:
    """A held member died: the order must not name it any more, or newcomers look for it in vain."""
    record, now = case.holding, case.now.monotonic
    if record is None or not case.condemned:
        return None
    settled = min(judgement.condemned_at or 0.0 for judgement in case.condemned)
    settled += case.settle_seconds
    if case.undecided and now < settled:
        return Later(settled, "evidence about held members that fell silent at the same time")
    ready = case.view.written_at + case.policy.supersede_pause_seconds(case.unresumed)
    if now < ready:
        return Later(ready, f"generation {record.generation} to get a little older")
    gone = tuple(judgement.incarnation for judgement in case.condemned)
    seats = tuple(seat for seat in record.seats if seat.member.incarnation not in gone)
    if not succession_is_safe(case.view, seats, case.condemned):
        return Later(None, f"no proof that generation {record.generation} can step no more")
    verdict: Verdict = record.verdict
    if isinstance(verdict, AwaitReplacement):
        left = hold_seconds_left(case, record)
        verdict = AwaitReplacement(lost=gone, wait_seconds=left)
    names = listed(judgement.seat.member.name for judgement in case.condemned)
    return new_generation(case, verdict, seats, f"lost {names} while holding")


def available(case: Case, record: JobRecord) -> tuple[tuple[Seat, ...], tuple[Seat, ...]]:
    """Seats whose members are there and unsuspected, and candidates."""
    lost = {judgement.incarnation for judgement in case.condemned}
    survivors = tuple(
        seat
        for seat in record.seats
        if seat.member.incarnation not in lost
        and not silent(case.view, seat.member.incarnation)
        and _is_live(case, seat)
    )
    return survivors, candidates(case.view, case.policy, case.now)


def _is_live(case: Case, seat: Seat) -> bool:
    member = case.view.members.get(seat.member.incarnation)
    return member is not None and member.live(case.now)


def rule_on_growing(case: Case) -> Decision | Later | None:
    """A warm newcomer waits and the job runs quietly below its most: let it in (R19)."""
    record, view, policy = case.running, case.view, case.policy
    if record is None or record.phase != "resumed" or not is_quiet(case):
        return None
    spec = gang(view)
    assert spec is not None, "a record has a gang"
    room = max(spec.max_member - len(record.seats), 0)
    added = candidates(view, policy, case.now)[:room]
    if not added:
        return None
    grew = record.verdict.kind == "grow"
    pause = policy.grow_interval_seconds if grew else policy.grow_quiet_seconds
    if case.now.monotonic < view.phase_at + pause:
        return Later(view.phase_at + pause, f"{pause:g} s of steps before the next change")
    verdict = Grow(added=tuple(seat.member.incarnation for seat in added))
    names = listed(seat.member.name for seat in added)
    return new_generation(case, verdict, (*record.seats, *added), f"{names} ready, room for {room}")


def wait_for_other_nodes(case: Case) -> Later | None:
    """Say who is ready and yet not let in, since its node is quarantined (EC-22)."""
    view = case.view
    away = [
        f"{who.name} to run elsewhere, {who.node} is quarantined"
        for who in (member.report.member for member in _living(case))
        if who.node in view.quarantined_nodes and view.seat(who.incarnation) is None
    ]
    return Later(None, listed(away, "; ")) if away else None


def is_quiet(case: Case) -> bool:
    """Nobody is accused of anything, and nobody has finished."""
    view = case.view
    if view.incident is not None or view.finished_at is not None or view.exits:
        return False
    return not any(judgement.evidence for judgement in case.judgements)


def new_generation(
    case: Case,
    verdict: Verdict,
    seats: tuple[Seat, ...],
    reason: str,
    *,
    planned: tuple[Seat, ...] = (),
) -> Decision:
    """Rule that these members run, or hold, under the next number. ``planned``: see `Draft`."""
    draft = Draft(verdict, seats, reason, lost=case.condemned, planned=planned)
    record = record_of(case.view, case.policy, case.now, draft)
    return Decision(Rule(record), reason)
