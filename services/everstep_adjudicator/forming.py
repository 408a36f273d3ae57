"""The next generation: its number, who is in it in which order, whose store (R5, R17-R21)."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypedDict, assert_never

from everstep_contract.identity import Seat
from everstep_contract.record import (
    Exclusion,
    JobRecord,
    OrderState,
    RecordPhase,
)
from everstep_contract.verdicts import (
    AwaitReplacement,
    Form,
    GiveUp,
    Grow,
    RestartWorkers,
    Shrink,
    Suspend,
    Swap,
    Tolerate,
    Verdict,
)
from everstep_runtime.clock import Moment

from everstep_adjudicator.evidence import PROOF_OF_DEATH, Judgement, silent
from everstep_adjudicator.model import JobView, MemberView
from everstep_adjudicator.policy import Policy
from everstep_adjudicator.sizing import by_age, described, goes_with, open_wish, renamed


def next_generation(view: JobView) -> int:
    """1 + the highest heard of anywhere: memory, record, annotation, agents, storage (R5)."""
    reports = [member.report for member in view.members.values()]
    known = [max(report.generation, report.saved_generation) for report in reports]
    return 1 + max(view.known_generation, view.generation, *known, 0)


def candidates(view: JobView, policy: Policy, now: Moment) -> tuple[Seat, ...]:
    """Warm members without a seat, alive and unsuspected, longest known first (R19).

    Who was excluded waits a while, so that a flapping member is no burden to a job that runs. One
    that holds takes it at once: perhaps nobody else has the state that it is held for.
    """
    runs = view.record is not None and view.record.state == "run"
    excluded = {e.member.incarnation for e in view.record.excluded} if view.record and runs else ()
    found = []
    for member in by_age(view):
        incarnation = member.report.member.incarnation
        since = member.ready_since
        if since is None or not admissible(view, member, now):
            continue
        if incarnation in excluded and now.monotonic - since < policy.readmit_seconds:
            continue
        found.append(seat_of(member))
    return tuple(found)


def admissible(view: JobView, member: MemberView, now: Moment) -> bool:
    """Whether a member has no seat, lives, and nothing stands against it."""
    who = member.report.member
    if view.seat(who.incarnation) is not None or who.incarnation in view.left:
        return False
    if view.record is not None and not renamed(view) and who.job_uid != view.record.job_uid:
        return False
    if who.job_uid in view.deleted_uids:
        return False
    wish = open_wish(view)
    if wish is not None and wish.stage == "granted" and goes_with(who, wish.size):
        return False
    if who.node in view.fenced_nodes or who.node in view.quarantined_nodes:
        return False
    return member.live(now) and not view.standing(who.incarnation)


def seat_of(member: MemberView) -> Seat:
    """A member's place, by its own word."""
    report = member.report
    return Seat(
        member=report.member,
        peer=report.peer,
        store=report.store,
        nproc=report.gang.nproc_per_node,
    )


def succession_is_safe(
    view: JobView, seats: Iterable[Seat], judgements: Iterable[Judgement]
) -> bool:
    """Whether no older generation can step beside a new one with these seats (R21).

    A step needs every member. So an older generation is over once one of its members has left it,
    will leave it because it has a seat in the new one, or is proven dead. Unknown is not proof.
    """
    record = view.record
    if record is None:
        return True
    gone = {seat.member.incarnation for seat in seats} | _proven_dead(view, record, judgements)
    older = [(record.formed_generation, record.formed_by)]
    if record.state == "run" and record.phase == "decided":
        older.append((record.generation, record.incarnations))
    return all(
        not incarnations
        or any(who in gone or _has_left(view, who, generation) for who in incarnations)
        for generation, incarnations in older
    )


def _proven_dead(
    view: JobView, record: JobRecord, judgements: Iterable[Judgement]
) -> frozenset[str]:
    earlier = (
        exclusion.member.incarnation
        for exclusion in record.excluded
        if any(item.kind in PROOF_OF_DEATH for item in exclusion.evidence)
    )
    return frozenset({j.incarnation for j in judgements if j.proven} | {*earlier, *view.left})


def _has_left(view: JobView, incarnation: str, generation: int) -> bool:
    """Whether it acknowledged that it can do nothing any more in ``generation``."""
    member = view.members.get(incarnation)
    joined, _ = view.joined.get(incarnation, (0, ""))
    return joined > generation or bool(member and member.report.left_generation >= generation)


@dataclass(frozen=True)
class Draft:
    """A verdict with everything its record needs that does not follow from the view."""

    verdict: Verdict
    seats: tuple[Seat, ...]
    reason: str
    lost: tuple[Judgement, ...] = ()
    other_store: bool = False
    incident: str | None = None
    failures_without_progress: int | None = None
    unspent_generations: int | None = None
    planned: tuple[Seat, ...] = ()
    """Who is left out because its pod shall go: nothing is wrong with it, nor with its node."""


def record_of(view: JobView, policy: Policy, now: Moment, draft: Draft) -> JobRecord:
    """The record that a ruling writes; its generation is new by R5."""
    job_uid = _uid(view, draft)
    old = view.record if view.record and view.record.job_uid == job_uid else None
    generation = next_generation(view)
    state, phase = _state_and_phase(draft.verdict)
    spec = described(view)
    assert spec is not None, "nobody forms a job that nobody described"
    return JobRecord(
        job=view.job,
        job_uid=job_uid,
        generation=generation,
        verdict_id=f"{view.lease_revision}-{view.attempts + 1}-{generation}",
        verdict=draft.verdict,
        reason=draft.reason,
        evidence=tuple(item for judgement in draft.lost for item in judgement.evidence),
        decided_at=now.at,
        phase=phase,
        state=state,
        gang=spec,
        seats=draft.seats,
        store_host=_store_host(view, draft.seats, other=draft.other_store),
        durations=policy.durations,
        history=old.history if old else (),
        excluded=_excluded(view, policy, now, draft),
        incident=draft.incident,
        rescale=old.rescale if old else None,
        lease_revision=view.lease_revision,
        **_remembered(view, old, draft, generation),
    )


class _Remembered(TypedDict):
    failures_without_progress: int
    unspent_generations: int
    failed_at_step: int
    formed_generation: int
    formed_by: tuple[str, ...]
    resumed_generation: int


def _remembered(view: JobView, old: JobRecord | None, draft: Draft, generation: int) -> _Remembered:
    """What the new record keeps of the job's past; a job without one has just completed nothing.

    No step was asked of a generation that holds by an operator's word, so that it and the one that
    ends it spend nothing of the restart budget.
    """
    failures = draft.failures_without_progress
    if old is None:
        return _Remembered(
            failures_without_progress=failures or 0,
            unspent_generations=0,
            failed_at_step=0,
            formed_generation=0,
            formed_by=(),
            resumed_generation=generation - 1,
        )
    ruled_on_failure = failures is not None
    unspent = draft.unspent_generations
    if unspent is None:
        held = by_operator(old.verdict) or by_operator(draft.verdict)
        unspent = old.unspent_generations + (generation - old.generation if held else 0)
    return _Remembered(
        failures_without_progress=failures
        if failures is not None
        else old.failures_without_progress,
        unspent_generations=unspent,
        failed_at_step=view.highest_step if ruled_on_failure else old.failed_at_step,
        formed_generation=old.formed_generation,
        formed_by=old.formed_by,
        resumed_generation=old.resumed_generation,
    )


def by_operator(verdict: Verdict) -> bool:
    """Whether an operator suspended the job: then only an operator's word ends it."""
    return isinstance(verdict, Suspend) and verdict.by == "operator"


def _state_and_phase(verdict: Verdict) -> tuple[OrderState, RecordPhase]:
    match verdict:
        case Form() | Grow() | RestartWorkers() | Shrink() | Swap():
            return "run", "decided"
        case AwaitReplacement() | Suspend():
            return "hold", "holding"
        case GiveUp():
            return "stop", "ended"
        case Tolerate():
            raise ValueError("to tolerate is no generation")
        case _:
            assert_never(verdict)


def _uid(view: JobView, draft: Draft) -> str:
    if draft.seats:
        return draft.seats[0].member.job_uid
    assert view.record is not None
    return view.record.job_uid


def _store_host(view: JobView, seats: tuple[Seat, ...], *, other: bool) -> str | None:
    """Whose store the generation uses (R17): the one in use while its host stays.

    Everybody is connected to that one already. When it did not let the group form, or its host is
    gone, the next in rank order that is not suspected.
    """
    order = [seat.member.incarnation for seat in seats]
    if not order:
        return None
    current = view.record.store_host if view.record else None
    if current in order and not other and not silent(view, current):
        return current
    start = order.index(current) + 1 if current in order else 0
    turned = order[start:] + order[:start]
    return next((incarnation for incarnation in turned if not silent(view, incarnation)), turned[0])


def _excluded(view: JobView, policy: Policy, now: Moment, draft: Draft) -> tuple[Exclusion, ...]:
    """Who is left out and not replaced: by name, because a remade pod keeps its name."""
    present = {seat.member.incarnation for seat in draft.seats}
    names = {seat.member.name for seat in draft.seats}
    evidence = {judgement.incarnation: judgement.evidence for judgement in draft.lost}
    earlier = view.record.excluded if view.record else ()
    newly = tuple(
        Exclusion(
            member=seat.member, evidence=evidence.get(seat.member.incarnation, ()), since=now.at
        )
        for seat in view.seats
        if seat.member.incarnation not in present and seat not in draft.planned
    )
    kept = [e for e in (*newly, *earlier) if e.member.name not in names]
    return tuple(kept[: policy.excluded_limit])
