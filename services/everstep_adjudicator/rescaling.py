"""Another size of a job, as an operator wishes it: asked, granted, the gang moved, done or refused.

Volcano removes the pods of the highest indices, whoever is on them. So the members on those leave
the gang first, by a planned generation, and the rescaler changes the Job when it goes on without
them. Nothing moves before the rescaler has said that it may change the Job.
"""

from everstep_contract.identity import GangSpec, Seat
from everstep_contract.queries import RescaleJob
from everstep_contract.record import JobRecord
from everstep_contract.rescaling import JobSize, Rescale, RescaleStage
from everstep_contract.verdicts import AwaitReplacement, Grow, Shrink, Verdict

from everstep_adjudicator.actions import Advance, Decision, Later, Refuse
from everstep_adjudicator.admission import (
    available,
    hold_seconds_left,
    is_quiet,
    new_generation,
)
from everstep_adjudicator.case import Case, listed
from everstep_adjudicator.sizing import described, gang, goes_with, open_wish, renamed


def ask_for(case: Case, record: JobRecord, command: RescaleJob) -> Decision:
    """The wish in the job's record, or the reason why it cannot be had."""
    spec = described(case.view)
    assert spec is not None, "a record has a gang"
    least = command.min_available or min(spec.min_member, command.replicas)
    size = JobSize(replicas=command.replicas, min_available=least)
    why_not = _why_not(record, spec, size)
    if why_not:
        return Decision(Refuse(), why_not)
    wish = Rescale(
        id=f"{case.view.lease_revision}-{case.view.revision}-rescale",
        size=size,
        reason=command.reason,
        asked_at=case.now.at,
    )
    return _keep(record, wish, f"operator: {command.reason}")


def _why_not(record: JobRecord, spec: GangSpec, size: JobSize) -> str:
    open_one = record.rescale
    if open_one is not None and open_one.is_open:
        return f"a rescale to {open_one.size} is under way; wait until it is done or refused"
    if size == _size_of(spec):
        return f"the job has {size} already"
    if size.min_available > size.replicas:
        return f"minAvailable {size.min_available} is more than replicas {size.replicas}"
    nameless = [s.member.name for s in record.seats if s.member.index is None]
    if nameless:
        return f"{nameless[0]} is named after no index, so nobody knows whose pod would go"
    stay = [seat for seat in record.seats if not goes_with(seat.member, size)]
    if record.state == "run" and len(stay) < size.min_available:
        return (
            f"only {len(stay)} of its {len(record.seats)} members would stay, which is fewer than"
            f" minAvailable {size.min_available}: ask for fewer, or wait until others are back"
        )
    return ""


def rule_on_rescaling(case: Case) -> Decision | Later | None:
    """A wish is open: grant it, move the gang, end it; each when it is time."""
    record, wish = case.view.record, open_wish(case.view)
    if record is None or wish is None:
        return None
    answer = case.view.rescale_answer
    said = answer.answer if answer is not None and answer.wish == wish.id else None
    if said == "refused" and answer is not None:
        return _end(record, wish, "refused", answer.detail)
    seen = case.view.observed_gang
    if said == "done" or (wish.stage == "granted" and seen and _size_of(seen) == wish.size):
        return _end(record, wish, "done", "")
    if wish.stage == "asked" and said == "possible" and answer is not None:
        granted = wish.model_copy(update={"stage": "granted", "size_before": answer.size})
        return _keep(record, granted, f"the Job can have {wish.size}")
    leaving = tuple(seat for seat in record.seats if goes_with(seat.member, wish.size))
    if wish.stage == "granted" and leaving:
        return _move(case, record, wish, leaving)
    return _patience(case, record, wish)


def _move(
    case: Case, record: JobRecord, wish: Rescale, leaving: tuple[Seat, ...]
) -> Decision | Later:
    """Those whose pods will go leave the gang, at a quiet moment; a held job is quiet."""
    stay = tuple(seat for seat in record.seats if seat not in leaving)
    names = listed(seat.member.name for seat in leaving)
    verdict: Verdict = record.verdict
    if record.state == "run":
        if len(stay) < wish.size.min_available:
            why = f"only {len(stay)} members would stay by now"
            return _end(record, wish, "refused", why)
        if record.phase != "resumed" or not is_quiet(case):
            return Later(None, f"a quiet moment, at which {names} leave")
        verdict = Shrink(lost=tuple(seat.member.incarnation for seat in leaving))
    elif isinstance(verdict, AwaitReplacement):
        wait = hold_seconds_left(case, record)
        verdict = AwaitReplacement(lost=verdict.lost, wait_seconds=wait)
    reason = f"operator: {wish.reason}; {wish.size}, and {names} leave"
    return new_generation(case, verdict, stay, reason, planned=leaving)


def _patience(case: Case, record: JobRecord, wish: Rescale) -> Decision | Later:
    """Nobody answers, or the Job does not change: not for ever (R27)."""
    if wish.stage == "asked":
        seconds = case.policy.rescale_answer_seconds
        what = "a rescaler that may change the Job"
        by_hand = wish.size.by_hand(record.job.namespace, record.job.name)
        why = f"no rescaler with a cluster answers; by hand: {by_hand}"
    else:
        seconds = case.policy.rescale_seconds
        what = f"the Job to have {wish.size}"
        why = f"the Job has not got {wish.size} within {seconds:g} s"
    deadline = case.view.rescale_at + seconds
    if case.now.monotonic < deadline:
        return Later(deadline, what)
    return _end(record, wish, "refused", why)


def rule_on_the_floor(case: Case) -> Decision | None:
    """It runs with fewer than the floor, which was raised: take others in, or hold (R20)."""
    record, spec = case.running, gang(case.view)
    if record is None or spec is None or case.condemned or case.view.finished_at is not None:
        return None
    missing = spec.min_member - len(record.seats)
    if missing <= 0:
        return None
    _, added = available(case, record)
    seats = (*record.seats, *added)[: spec.max_member]
    reason = f"{len(record.seats)} members run, min_member is {spec.min_member} now"
    if len(seats) >= spec.min_member:
        names = tuple(seat.member.incarnation for seat in seats[len(record.seats) :])
        return new_generation(case, Grow(added=names), seats, reason)
    verdict = AwaitReplacement(lost=(), wait_seconds=case.policy.hold_seconds)
    return new_generation(case, verdict, record.seats, reason)


def follow_the_job(case: Case) -> Decision | None:
    """The cluster describes the job otherwise than its record: who takes over knows the record."""
    record, seen = case.view.record, case.view.observed_gang
    if record is None or seen is None or renamed(case.view) or record.gang == seen:
        return None
    reason = f"the Job has {_size_of(seen)}"
    return Decision(Advance(record.model_copy(update={"gang": seen})), reason)


def _end(record: JobRecord, wish: Rescale, stage: RescaleStage, why: str) -> Decision:
    over = wish.model_copy(update={"stage": stage, "detail": why})
    if stage == "done":
        size = {"min_member": wish.size.min_available, "max_member": wish.size.replicas}
        record = record.model_copy(update={"gang": record.gang.model_copy(update=size)})
    return _keep(record, over, f"rescale to {wish.size}: {why or stage}")


def _keep(record: JobRecord, wish: Rescale, reason: str) -> Decision:
    return Decision(Advance(record.model_copy(update={"rescale": wish})), reason)


def _size_of(spec: GangSpec) -> JobSize:
    return JobSize(replicas=spec.max_member, min_available=spec.min_member)
