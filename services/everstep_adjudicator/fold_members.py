"""What members say of themselves: reports, joining, forming, leaving."""

from dataclasses import replace
from typing import Final

from everstep_contract.facts.member import MemberFormed, MemberJoined, MemberLeft
from everstep_contract.identity import Member
from everstep_contract.telemetry import MemberPhase, MemberReport
from everstep_runtime.clock import Moment

from everstep_adjudicator import fold_evidence
from everstep_adjudicator.model import FRESH_SECONDS, JobView, MemberView

MEMBERS_LIMIT: Final = 10_000
"""Incarnations remembered for one job; the longest unheard are forgotten first."""
FORGET_SECONDS: Final = 600.0
"""A member that takes no part is forgotten this long after its last report."""
CANDIDATE_PHASES: Final[frozenset[MemberPhase]] = frozenset({"ready", "holding"})
"""Warm, in no group: may be given a seat (R19)."""
JOINED_PHASES: Final[frozenset[MemberPhase]] = frozenset({"joined", "formed", "stepping"})
FORMED_PHASES: Final[frozenset[MemberPhase]] = frozenset({"formed", "stepping"})


def reported(view: JobView, report: MemberReport, now: Moment) -> JobView:
    """A report: everything the agent knows of itself. An older one than known is ignored."""
    incarnation = report.member.incarnation
    known = view.members.get(incarnation)
    if known is not None and report.sequence <= known.report.sequence:
        return view
    member = _member_view(known, report, now)
    view = replace(
        _heard(view, now),
        members=_remembered(view, {**view.members, incarnation: member}, now),
        known_generation=max(view.known_generation, report.generation),
        highest_step=max(view.highest_step, report.step),
    )
    view = fold_evidence.succeeded(fold_evidence.missed(view, now), incarnation, now)
    view = fold_evidence.outpaced(view, report)
    if not view.seat(incarnation) or not view.is_current(report.generation, report.verdict_id):
        return view
    view = _order_seen(view, now)
    if report.phase in JOINED_PHASES:
        view = _joined(view, report.member, (report.generation, report.verdict_id))
    return _progressed(view, report, now)


def is_heartbeat(before: JobView, after: JobView, report: MemberReport) -> bool:
    """Whether a report says only that its member still steps: no rule has to speak at once."""
    known = before.members.get(report.member.incarnation)
    return (
        report.phase == "stepping"
        and known is not None
        and known.report.phase == "stepping"
        and known.report.verdict_id == report.verdict_id
        and after.suspicions is before.suspicions
        and after.successors is before.successors
        and after.stamps is before.stamps
        and after.joined is before.joined
    )


def joined(view: JobView, fact: MemberJoined, now: Moment) -> JobView:
    """The member left its old group and waits at the barrier of ``fact.generation`` (R16)."""
    view = reported(view, fact.report, now)
    if not view.is_current(fact.generation, fact.verdict_id):
        return view
    view = view.stamped("left_old_group", fact.at, last=True)
    view = _order_seen(view, now)
    return _joined(view, fact.member, (fact.generation, fact.verdict_id))


def formed(view: JobView, fact: MemberFormed, now: Moment) -> JobView:
    """Every worker of the member is in the new group."""
    if not view.is_current(fact.generation, fact.verdict_id):
        return view
    view = replace(view, formed={**view.formed, fact.member.incarnation: fact})
    view = view.stamped("agreed", fact.at, last=True)
    return _joined(view, fact.member, (fact.generation, fact.verdict_id))


def left(view: JobView, fact: MemberLeft, now: Moment) -> JobView:
    """The agent ends on its own account."""
    incarnation = fact.member.incarnation
    if incarnation not in view.members and view.seat(incarnation) is None:
        return view
    view = replace(view, left={**view.left, incarnation: fact})
    if fact.reason != "finished" or view.seat(incarnation) is None:
        return view
    return replace(view, finished_at=now.monotonic) if view.finished_at is None else view


def _order_seen(view: JobView, now: Moment) -> JobView:
    """Somebody obeys the generation: its order is out, and its deadlines run (R27)."""
    return replace(view, ordered_at=now.monotonic) if view.ordered_at is None else view


def _member_view(known: MemberView | None, report: MemberReport, now: Moment) -> MemberView:
    candidate = report.phase in CANDIDATE_PHASES
    if known is None:
        at = now.monotonic
        return MemberView(report, at, at, at, ready_since=at if candidate else None)
    unbroken = known.ready_since is not None and now.monotonic - known.heard <= FRESH_SECONDS
    same = (known.report.phase, known.report.generation) == (report.phase, report.generation)
    return MemberView(
        report,
        first_heard=known.first_heard,
        heard=now.monotonic,
        reports=known.reports + 1,
        phase_since=known.phase_since if same else now.monotonic,
        ready_since=(known.ready_since if unbroken else now.monotonic) if candidate else None,
    )


def _heard(view: JobView, now: Moment) -> JobView:
    """Somebody of the job is heard: after a break, from now on."""
    broken = view.heard is None or now.monotonic - view.heard > FRESH_SECONDS
    since = now.monotonic if broken else view.hearing_since
    return replace(view, heard=now.monotonic, hearing_since=since)


def _remembered(
    view: JobView, members: dict[str, MemberView], now: Moment
) -> dict[str, MemberView]:
    oldest = now.monotonic - FORGET_SECONDS
    if len(members) <= MEMBERS_LIMIT and all(m.heard >= oldest for m in members.values()):
        return members
    seated = {seat.member.incarnation for seat in view.seats}
    by_age = sorted(members.items(), key=lambda item: (item[0] not in seated, -item[1].heard))
    return {
        incarnation: member
        for incarnation, member in by_age[:MEMBERS_LIMIT]
        if incarnation in seated or member.heard >= oldest
    }


def _joined(view: JobView, member: Member, generation: tuple[int, str]) -> JobView:
    if view.joined.get(member.incarnation) == generation:
        return view
    return replace(view, joined={**view.joined, member.incarnation: generation})


def _progressed(view: JobView, report: MemberReport, now: Moment) -> JobView:
    progress = view.progress
    if report.phase == "stepping":
        view = view.stamped("first_new_step", report.at, last=False)
        progress = replace(progress, step=max(progress.step, report.step))
    if report.step_begun > progress.step_begun:
        progress = replace(progress, step_begun=report.step_begun, since=now.monotonic)
    return replace(view, progress=progress)
