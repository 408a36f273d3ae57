"""Whom to ask about a suspect, and when to ask again (R11: indirect probes)."""

from everstep_contract.queries import ProbeMember

from everstep_adjudicator.actions import Ask, Decision, Later
from everstep_adjudicator.case import Case, listed
from everstep_adjudicator.evidence import Judgement, quorum, silent
from everstep_adjudicator.fold_evidence import NEVER_CLEARED
from everstep_adjudicator.forming import admissible


def ask_around(case: Case) -> Decision | Later | None:
    """Ask others to look at every suspect whose round of probes is due."""
    record = case.view.record
    if record is None or record.phase == "ended":
        return None
    due, waits = [], []
    for judgement in case.judgements:
        if not _worth_asking(case, judgement):
            continue
        at = _due_at(case, judgement)
        if case.now.monotonic >= at:
            due.append(judgement)
        else:
            waits.append(at)
    probes = tuple(probe for judgement in due for probe in _probes(case, judgement))
    if probes:
        names = listed(judgement.seat.member.name for judgement in due)
        return Decision(Ask(probes), f"asking others about {names}")
    return Later(min(waits), "answers about silent members") if waits else None


def _worth_asking(case: Case, judgement: Judgement) -> bool:
    """Something stands that an answer could change."""
    if judgement.condemned_at is not None:
        return False
    standing = case.view.standing(judgement.incarnation)
    return any(suspicion.kind not in NEVER_CLEARED for suspicion in standing)


def _due_at(case: Case, judgement: Judgement) -> float:
    probing = case.view.probing.get(judgement.incarnation)
    if probing is None:
        return case.now.monotonic
    if probing.rounds < case.policy.probe_rounds:
        return probing.asked_at + case.policy.probe_retry_seconds
    return probing.asked_at + case.policy.probe_slow_seconds


def _probes(case: Case, judgement: Judgement) -> tuple[ProbeMember, ...]:
    """One question to each of a few witnesses: who has not been asked lately comes first."""
    target = judgement.incarnation
    probing = case.view.probing.get(target)
    asked = probing.asked if probing else ()
    witnesses = sorted(_witnesses(case, target), key=asked.count)
    wanted = max(case.policy.probe_witnesses, quorum(case.view, case.policy, target))
    return tuple(
        ProbeMember(
            job=case.view.job,
            witness=witness,
            target=target,
            endpoint=judgement.seat.peer,
            timeout_seconds=case.policy.probe_timeout_seconds,
        )
        for witness in witnesses[:wanted]
    )


def _witnesses(case: Case, target: str) -> list[str]:
    """Who may be asked: members that nothing stands against, then others of the job.

    Those need not be ready: who comes anew into a job that is dead is ready only when the dead are
    known, for it looks for them (R19).
    """
    seated = [
        judgement.incarnation
        for judgement in case.judgements
        if judgement.condemned_at is None and not silent(case.view, judgement.incarnation)
    ]
    return [incarnation for incarnation in (*seated, *_others(case)) if incarnation != target]


def _others(case: Case) -> list[str]:
    """Members without a seat that are there, the longest known first."""
    view = case.view
    return [
        member.report.member.incarnation
        for member in sorted(view.members.values(), key=lambda member: member.first_heard)
        if admissible(view, member, case.now)
    ]
