"""What is known for and against each member: suspicions, probes, exits, progress (R10-R14)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from everstep_contract.facts.job import PodObserved
from everstep_contract.facts.member import MemberRecovered, MemberSuspected
from everstep_contract.facts.node import NodeObserved
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.queries import ProbeMember
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Moment

from everstep_adjudicator.actions import ProbeEnded
from everstep_adjudicator.model import (
    FRESH_SECONDS,
    SILENCE,
    STALL_FACTOR,
    JobView,
    ProbeAnswer,
    Probing,
    Stamped,
    Suspicion,
    SuspicionKey,
)

FAILURES_LIMIT: Final = 256
"""Worker exits, and collective failures, of one generation that are kept."""
REOPEN_SECONDS: Final = 10.0
"""No step for so long: a cleared suspicion counts again when it is reasserted."""
MISSED_SECONDS: Final = 3.0
"""Six reports in a row: then a member is missed though no watcher has said so."""
MISSING_LOOK_SECONDS: Final = 0.5
NEVER_CLEARED: Final = frozenset({"pod_terminated"})
"""The API's word that all containers have ended; nothing a member could say speaks against it."""


def suspected(view: JobView, fact: MemberSuspected, now: Moment) -> JobView:
    """A detector believes that a member is failing; it may be a standing one, reasserted."""
    incarnation = fact.member.incarnation
    if view.seat(incarnation) is None and incarnation not in view.members:
        return view
    key = (incarnation, fact.witness, fact.reason)
    known = view.suspicions.get(key)
    if known is not None and fact.observation <= known.observation:
        return view if fact.observation < known.observation else _reasserted(view, key, now)
    suspicion = Suspicion(
        incarnation=incarnation,
        witness=fact.witness,
        kind=fact.reason,
        observation=fact.observation,
        at=fact.at,
        since=now.monotonic,
        step_known=view.progress.step_begun,
        detail=fact.detail,
    )
    return _with_suspicions(view, {key: suspicion})


def recovered(view: JobView, fact: MemberRecovered) -> JobView:
    """The same incarnation is connected again: suspicions of its silence end (R12)."""

    def refuted(suspicion: Suspicion) -> bool:
        if suspicion.incarnation != fact.member.incarnation or suspicion.kind not in SILENCE:
            return False
        if suspicion.witness == fact.witness:
            return suspicion.observation <= fact.observation
        return suspicion.at <= fact.at  # told by a watcher that has been replaced

    return _cleared(view, refuted, "it is connected again")


def exited(view: JobView, fact: WorkerExited, now: Moment) -> JobView:
    """A worker ended in the current generation; one of an older generation was left anyhow."""
    known = {stamped.fact.dedup_id for stamped in view.exits}
    if view.seat(fact.member.incarnation) is None or fact.generation != view.generation:
        return view
    if fact.dedup_id in known:
        return view
    return replace(view, exits=(*view.exits, Stamped(fact, now.monotonic))[:FAILURES_LIMIT])


def collective_failed(view: JobView, fact: CollectiveFailed, now: Moment) -> JobView:
    """A collective failed in the current generation, its successor undecided (R13)."""
    known = {stamped.fact.dedup_id for stamped in view.collective_failures}
    current = view.is_current(fact.generation, fact.verdict_id)
    if not current or view.seat(fact.member.incarnation) is None or fact.dedup_id in known:
        return view
    failures = (*view.collective_failures, Stamped(fact, now.monotonic))[:FAILURES_LIMIT]
    return _peer_named(replace(view, collective_failures=failures), fact, now)


def _peer_named(view: JobView, fact: CollectiveFailed, now: Moment) -> JobView:
    if fact.peer is None or view.seat(fact.peer) is None or fact.peer == fact.member.incarnation:
        return view
    key: SuspicionKey = (fact.peer, fact.member.incarnation, "collective_failed")
    if key in view.suspicions:
        return view
    suspicion = Suspicion(
        incarnation=fact.peer,
        witness=fact.member.incarnation,
        kind="collective_failed",
        observation=1,
        at=fact.at,
        since=now.monotonic,
        step_known=view.progress.step_begun,
        detail=fact.detail,
    )
    return _with_suspicions(view, {key: suspicion})


def pod_observed(view: JobView, fact: PodObserved) -> JobView:
    """Remember why a member's pod was asked to go: its end is no failure then (EC-54)."""
    if not fact.planned or fact.pod_uid in view.planned:
        return view
    pods = {seat.member.pod_uid for seat in view.seats}
    pods |= {known.report.member.pod_uid for known in view.members.values()}
    if fact.pod_uid not in pods:
        return view
    asked = f"{fact.cause}: {fact.reason}" if fact.reason else fact.cause
    kept = {uid: why for uid, why in view.planned.items() if uid in pods}
    return replace(view, planned={**kept, fact.pod_uid: asked})


def node_observed(view: JobView, fact: NodeObserved) -> JobView:
    """A node that is gone, or tainted out of service, is proof for everything that ran on it."""
    if fact.deleted or fact.out_of_service:
        return replace(view, fenced_nodes=view.fenced_nodes | {fact.node})
    return replace(view, fenced_nodes=view.fenced_nodes - {fact.node})


def outpaced(view: JobView, report: MemberReport) -> JobView:
    """Clear whom the job's progress exonerates (R12), and a suspect that reports again (R13)."""
    reporter, begun = report.member.incarnation, report.step_begun
    steps = view.is_current(report.generation, report.verdict_id) and report.phase == "stepping"
    changed: dict[SuspicionKey, Suspicion] = {}
    for key, suspicion in view.suspicions.items():
        if suspicion.cleared or suspicion.kind in NEVER_CLEARED:
            continue
        if not steps and reporter != suspicion.incarnation:
            continue
        if reporter not in suspicion.rebased:
            changed[key] = replace(
                suspicion,
                rebased=suspicion.rebased | {reporter},
                step_known=max(suspicion.step_known, begun),
            )
        elif reporter == suspicion.incarnation:
            changed[key] = replace(suspicion, cleared="it reports")
        elif begun >= suspicion.step_known + 2:
            changed[key] = replace(suspicion, cleared=f"step {begun} began later")
    return _with_suspicions(view, changed)


def missed(view: JobView, now: Moment) -> JobView:
    """Seats not heard of while others are: the agents' own heartbeats, for want of a watcher.

    Whoever is missed is looked at, no more (R11). After a broken group we look sooner.
    """
    patience = FRESH_SECONDS if view.collective_failures else MISSED_SECONDS
    due = now.monotonic - view.missed_at >= MISSING_LOOK_SECONDS
    if not due or now.monotonic - view.hearing_since < MISSED_SECONDS:
        return view
    view = replace(view, missed_at=now.monotonic)
    for incarnation in view.record.incarnations if view.record else ():
        member = view.members.get(incarnation)
        heard = member.heard if member else view.hearing_since
        if now.monotonic - heard > patience and incarnation not in view.left:
            view = _miss(view, incarnation, heard, now)
    return view


def _miss(view: JobView, incarnation: str, heard: float, now: Moment) -> JobView:
    told = [
        key
        for key, known in view.suspicions.items()
        if known.incarnation == incarnation and known.kind in SILENCE and known.since >= heard
    ]
    if told:
        return _reasserted(view, told[0], now)
    key: SuspicionKey = (incarnation, "adjudicator", "not_connected")
    before = view.suspicions.get(key)
    suspicion = Suspicion(
        incarnation=incarnation,
        witness="adjudicator",
        kind="not_connected",
        observation=before.observation + 1 if before else 1,
        at=now.at,
        since=now.monotonic,
        step_known=view.progress.step_begun,
        detail=f"no report for {now.monotonic - heard:.1f} s",
    )
    return _with_suspicions(view, {key: suspicion})


def succeeded(view: JobView, reporter: str, now: Moment) -> JobView:
    """A newer incarnation of a current member is proof that the old one is dead (R2).

    Newer is who began to report after the old one's last word, by our clock and by its own stamp:
    a dead one's last report may be handed out again after our restart. Who still reports, lives.
    """
    if view.seat(reporter) is not None:
        if reporter not in view.successors:
            return view
        successors = {old: new for old, new in view.successors.items() if old != reporter}
        return replace(view, successors=successors)
    newcomer = view.members[reporter]
    old = _seated_namesake(view, newcomer.report)
    if old is None or newcomer.reports < 2 or view.successors.get(old) == reporter:
        return view
    last = view.members.get(old)
    if last and (last.heard >= newcomer.first_heard or last.report.at >= newcomer.report.at):
        return view
    if last and last.live(now):
        return view
    return replace(view, successors={**view.successors, old: reporter})


def _seated_namesake(view: JobView, report: MemberReport) -> str | None:
    for seat in view.seats:
        if seat.member.name == report.member.name and seat.member.job_uid == report.member.job_uid:
            return seat.member.incarnation
    return None


def asked(view: JobView, probes: tuple[ProbeMember, ...], now: Moment) -> JobView:
    """Probes are on their way."""
    probing = dict(view.probing)
    for target in dict.fromkeys(probe.target for probe in probes):
        witnesses = tuple(probe.witness for probe in probes if probe.target == target)
        known = probing.get(target)
        probing[target] = Probing(
            rounds=known.rounds + 1 if known else 1,
            asked_at=now.monotonic,
            pending=frozenset(witnesses),
            asked=((*known.asked, *witnesses) if known else witnesses)[-FAILURES_LIMIT:],
            answers=known.answers if known else {},
        )
    return replace(view, probing=probing)


def probe_ended(view: JobView, fact: ProbeEnded, now: Moment) -> JobView:
    """A witness looked. Alive exonerates (R12); what the others mean is for `evidence`."""
    known = view.probing.get(fact.target)
    if known is None or fact.witness not in known.pending:
        return view  # asked under a suspicion that is over
    if fact.outcome == "alive":
        witness = view.seat(fact.witness)
        clearer = f"it answers {witness.member.name if witness else fact.witness}"
        return _cleared(view, lambda s: s.incarnation == fact.target, clearer)
    answers = dict(known.answers)
    if fact.outcome is not None:
        answer = ProbeAnswer(fact.witness, fact.outcome, now.monotonic, fact.detail)
        answers[fact.witness] = answer
    probing = replace(known, pending=known.pending - {fact.witness}, answers=answers)
    return replace(view, probing={**view.probing, fact.target: probing})


def rebased(view: JobView) -> JobView:
    """A new generation: what stands is judged by its steps, who has no part is forgotten."""
    known = {*(seat.member.incarnation for seat in view.seats), *view.members}
    suspicions = {
        key: replace(
            suspicion,
            step_known=0,
            rebased=frozenset(),
            booked=suspicion.booked or bool(suspicion.cleared),
        )
        for key, suspicion in view.suspicions.items()
        if suspicion.incarnation in known and suspicion.kind != "collective_failed"
    }
    seated = {seat.member.incarnation for seat in view.seats}
    probing = {target: p for target, p in view.probing.items() if target in seated}
    return replace(view, suspicions=suspicions, probing=probing)


def booked(view: JobView, incarnations: set[str]) -> JobView:
    """What is said of these members is part of an incident."""
    return _with_suspicions(
        view,
        {
            key: replace(suspicion, booked=True)
            for key, suspicion in view.suspicions.items()
            if not suspicion.booked and suspicion.incarnation in incarnations
        },
    )


def shelved(view: JobView, why: str) -> JobView:
    """Nothing stands any more; what is still true will be reasserted (R10)."""
    return _cleared(view, lambda _: True, why)


def _reasserted(view: JobView, key: SuspicionKey, now: Moment) -> JobView:
    """A standing suspicion again. One that was cleared is weighed anew once steps have stopped."""
    known = view.suspicions[key]
    usual = STALL_FACTOR * (view.step_seconds_p99 or 0.0)
    stopped = now.monotonic - view.progress.since > max(REOPEN_SECONDS, usual)
    if not known.cleared or not stopped:
        return view
    again = replace(
        known,
        since=now.monotonic,
        at=now.at,
        step_known=view.progress.step_begun,
        rebased=frozenset(),
        cleared="",
        booked=False,
    )
    return _with_suspicions(view, {key: again})


def _with_suspicions(view: JobView, changed: dict[SuspicionKey, Suspicion]) -> JobView:
    """With these suspicions; a suspect against whom nothing stands is not probed any more."""
    if not changed:
        return view
    view = replace(view, suspicions={**view.suspicions, **changed})
    idle = [target for target in view.probing if not view.standing(target)]
    if not idle:
        return view
    probing = {target: p for target, p in view.probing.items() if target not in idle}
    return replace(view, probing=probing)


def _cleared(view: JobView, applies: Callable[[Suspicion], bool], why: str) -> JobView:
    return _with_suspicions(
        view,
        {
            key: replace(suspicion, cleared=why)
            for key, suspicion in view.suspicions.items()
            if not suspicion.cleared and suspicion.kind not in NEVER_CLEARED and applies(suspicion)
        },
    )
