"""What is proof of a member's death, what is none, and what exonerates (R2, R10-R14, R18)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from everstep_contract.base import MAX_TEXT
from everstep_contract.identity import Seat
from everstep_contract.verdicts import Evidence, EvidenceKind
from everstep_runtime.clock import Moment

from everstep_adjudicator.model import FRESH_SECONDS, SILENCE, STALL_FACTOR, JobView, Suspicion
from everstep_adjudicator.policy import Policy

PROOF_OF_DEATH: Final[frozenset[EvidenceKind]] = frozenset(
    {"left", "fenced", "probe_refused", "other_incarnation", "pod_terminated"}
)
"""After these an incarnation takes no step any more: processes that have ended, a real fence."""
CORROBORATES: Final = frozenset({"node_not_ready", "node_rebooted", "pod_deleted"})
"""Kubernetes' word that counts together with silence (R11)."""
PROOF_WITH_SILENCE: Final[frozenset[EvidenceKind]] = frozenset({"node_rebooted"})
"""Another boot ended all processes of the one before; but a watcher that heard of it late may take
a newcomer for one of those, and whoever is heard of is none."""


@dataclass(frozen=True)
class Judgement:
    """What is known against one member.

    condemned_at: since when the evidence suffices (monotonic seconds), None while it does not.
    later_at: when time alone will make it suffice.
    """

    seat: Seat
    evidence: tuple[Evidence, ...] = ()
    condemned_at: float | None = None
    later_at: float | None = None

    @property
    def incarnation(self) -> str:
        """Who is judged."""
        return self.seat.member.incarnation

    @property
    def proven(self) -> bool:
        """Whether it can be taken for dead, not only for lost: unknown is not proof (R21)."""
        silent = self.condemned_at is not None
        return any(
            item.kind in PROOF_OF_DEATH or (silent and item.kind in PROOF_WITH_SILENCE)
            for item in self.evidence
        )


def judge(view: JobView, policy: Policy, now: Moment) -> tuple[Judgement, ...]:
    """A judgement of each seat of the current generation, in rank order."""
    return tuple(_as_planned(view, _judge_seat(view, policy, now, seat)) for seat in view.seats)


def _as_planned(view: JobView, judgement: Judgement) -> Judgement:
    """With the reason why a lost member was asked to go, if it was (EC-54)."""
    asked = view.asked_to_go(judgement.seat.member)
    if not asked or judgement.condemned_at is None:
        return judgement
    item = _evidence("planned", judgement.incarnation, "kubernetes", asked)
    return replace(judgement, evidence=(*judgement.evidence, item))


def _judge_seat(view: JobView, policy: Policy, now: Moment, seat: Seat) -> Judgement:
    immediate = tuple(_immediate(view, seat))
    if immediate:
        since = min(heard for _, heard in immediate)
        return Judgement(seat, tuple(item for item, _ in immediate), since)
    standing = view.standing(seat.member.incarnation)
    silences = tuple(s for s in standing if s.kind in SILENCE)
    evidence = tuple(_opinion(suspicion) for suspicion in standing)
    if not silences or view.blind(now):
        return Judgement(seat, evidence)
    return _judge_silence(view, policy, now, seat, silences)


def _immediate(view: JobView, seat: Seat) -> Iterator[tuple[Evidence, float]]:
    """Conclusive by itself (R11), with the instant it was heard."""
    incarnation = seat.member.incarnation
    if (left := view.left.get(incarnation)) is not None:
        detail = f"{left.reason}: {left.detail}" if left.detail else left.reason
        yield _evidence("left", incarnation, incarnation, detail), 0.0
    if seat.member.node in view.fenced_nodes:
        yield _evidence("fenced", incarnation, "kubernetes", f"node {seat.member.node}"), 0.0
    if (successor := view.successors.get(incarnation)) is not None:
        heard = view.members[successor].first_heard if successor in view.members else 0.0
        yield _evidence("other_incarnation", incarnation, successor, "R2"), heard
    for stamped in view.exits:
        fact = stamped.fact
        if fact.member.incarnation == incarnation and fact.classified == "hardware":
            yield _evidence("hardware_fault", incarnation, incarnation, fact.detail), stamped.heard
    for suspicion in view.standing(incarnation):
        if suspicion.kind == "pod_terminated":
            yield _opinion(suspicion), suspicion.since
    yield from _probed_dead(view, incarnation)


def _probed_dead(view: JobView, incarnation: str) -> Iterator[tuple[Evidence, float]]:
    probing = view.probing.get(incarnation)
    for answer in probing.answers.values() if probing else ():
        match answer.outcome:
            case "refused":
                kind: EvidenceKind = "probe_refused"
            case "other_incarnation":
                kind = "other_incarnation"
            case "alive" | "silent":
                continue
        yield _evidence(kind, incarnation, answer.witness, answer.detail), answer.heard


def _judge_silence(
    view: JobView, policy: Policy, now: Moment, seat: Seat, silences: tuple[Suspicion, ...]
) -> Judgement:
    """The bus does not hear it: that counts together with a second, independent finding (R11)."""
    incarnation = seat.member.incarnation
    evidence = [_opinion(suspicion) for suspicion in view.standing(incarnation)]
    since = min(suspicion.since for suspicion in silences)
    found: list[float] = [
        suspicion.since
        for suspicion in view.standing(incarnation)
        if suspicion.kind in CORROBORATES
    ]
    probing = view.probing.get(incarnation)
    failed = [a for a in probing.answers.values() if a.outcome == "silent"] if probing else []
    if len(failed) >= quorum(view, policy, incarnation):
        found.append(max(answer.heard for answer in failed))
        evidence += [_evidence("probe_silent", incarnation, a.witness, a.detail) for a in failed]
    stalls_at = _stalls_at(view, policy, since, now)
    if stalls_at is not None and stalls_at <= now.monotonic:
        found.append(stalls_at)
        evidence.append(_evidence("no_step", incarnation, "adjudicator", "no step since"))
    if found:
        return Judgement(seat, tuple(evidence), max(since, min(found)))
    return Judgement(seat, tuple(evidence), None, stalls_at)


def quorum(view: JobView, policy: Policy, target: str) -> int:
    """How many probes must fail: two, or as many as there are others that can be asked."""
    others = sum(
        incarnation != target and not silent(view, incarnation)
        for incarnation in (seat.member.incarnation for seat in view.seats)
    )
    return max(1, min(policy.probe_quorum, others))


def silent(view: JobView, incarnation: str) -> bool:
    """Whether the bus does not hear this member, as far as anybody says."""
    return any(suspicion.kind in SILENCE for suspicion in view.standing(incarnation))


def _stalls_at(view: JobView, policy: Policy, since: float, now: Moment) -> float | None:
    """When no step since ``since`` counts against a silent member; None while nobody can tell.

    Only while the generation steps, and others are heard of: no news is no evidence.
    """
    record, p99 = view.record, view.step_seconds_p99
    if record is None or record.phase != "resumed" or p99 is None or not hearing(view, policy, now):
        return None
    start = max(since, view.progress.since)
    return start + max(policy.stall_floor_seconds, STALL_FACTOR * p99)


def hearing(view: JobView, policy: Policy, now: Moment) -> bool:
    """Whether absence means anything: the job has been heard of for a while without a break."""
    if view.heard is None or now.monotonic - view.heard > FRESH_SECONDS:
        return False
    return now.monotonic - view.hearing_since >= policy.hearing_seconds


def _opinion(suspicion: Suspicion) -> Evidence:
    return _evidence(suspicion.kind, suspicion.incarnation, suspicion.witness, suspicion.detail)


def _evidence(kind: EvidenceKind, incarnation: str, witness: str, detail: str = "") -> Evidence:
    return Evidence(
        kind=kind, incarnation=incarnation, witness=witness[:253], detail=detail[:MAX_TEXT]
    )
