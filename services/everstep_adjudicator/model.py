"""What the adjudicator knows about one job: frozen values, replaced and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Generic, Literal, TypeVar

from everstep_contract.facts.job import RescaleAnswered
from everstep_contract.facts.member import MemberFormed, MemberLeft, SuspicionReason
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.identity import GangSpec, JobKey, Member, Seat
from everstep_contract.queries import ProbeOutcome
from everstep_contract.record import IncidentRecord, JobRecord, MilestoneName
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Moment

FRESH_SECONDS: Final = 1.5
"""A member that reported within this long is there: two of its reports in a row may be lost."""

STALL_FACTOR: Final = 5.0
"""No step for so many times the p99 of a step is remarkable (the k of R11)."""

BLINDNESS_BELIEVED_SECONDS: Final = 15.0
"""A watcher says every 3 s that it is still blind; one that died blind is believed no longer."""

SILENCE: Final = frozenset({"connection_closed", "connection_stale", "not_connected"})
"""Suspicions that mean: the bus does not hear the member. Silence alone proves nothing (R11)."""


@dataclass(frozen=True)
class MemberView:
    """One incarnation by its newest report; the times are ours, in monotonic seconds.

    ready_since: since when it has been a warm candidate without a break; None while it is not.
    """

    report: MemberReport
    first_heard: float
    heard: float
    phase_since: float
    reports: int = 1
    ready_since: float | None = None

    def live(self, now: Moment) -> bool:
        """Whether it lives as far as its reports tell.

        One report is not enough: after our restart the stream hands out everybody's last one, the
        dead's too.
        """
        return self.reports > 1 and now.monotonic - self.heard <= FRESH_SECONDS


SuspicionKind = SuspicionReason | Literal["collective_failed", "other_incarnation"]


@dataclass(frozen=True)
class Suspicion:
    """One witness's opinion of one incarnation, and what was known when it came.

    ``step_known`` is the highest step begun by then. Reports are up to half a second old, so it is
    raised to what each reporter first says afterwards (``rebased``), and only a report after that
    can show a step that really began later (R12). ``cleared`` says why it does not count any more;
    ``booked``: it is part of an incident, or not worth one.
    """

    incarnation: str
    witness: str
    kind: SuspicionKind
    observation: int
    at: datetime
    since: float
    step_known: int
    rebased: frozenset[str] = frozenset()
    cleared: str = ""
    booked: bool = False
    detail: str = ""


SuspicionKey = tuple[str, str, str]
"""Incarnation, witness, kind."""


@dataclass(frozen=True)
class ProbeAnswer:
    """What one witness found at a suspect's peer port."""

    witness: str
    outcome: ProbeOutcome
    heard: float
    detail: str = ""


@dataclass(frozen=True)
class Probing:
    """How a suspect is being probed; forgotten when nothing stands against it any more."""

    rounds: int
    asked_at: float
    pending: frozenset[str]
    asked: tuple[str, ...]
    answers: Mapping[str, ProbeAnswer] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """The newest steps of the current generation, and since when nothing newer was begun."""

    step: int = 0
    step_begun: int = 0
    since: float = 0.0


F = TypeVar("F", WorkerExited, CollectiveFailed)


@dataclass(frozen=True)
class Stamped(Generic[F]):
    """A fact and when we heard it, in monotonic seconds."""

    fact: F
    heard: float


@dataclass(frozen=True)
class JobView:
    """One job. Sequences and mappings are keyed by incarnation where nothing else is said.

    revision, incident_revision: what the next compare-and-set of the stored value must expect.
    known_generation: highest heard of anywhere, the job's annotation included (R5).
    announced: verdict id of the record whose event is published.
    joined: the newest (generation, verdict id) whose barrier each incarnation reached.
    planned: why the pods of these uids were asked to go, which is no failure of theirs (EC-54).
    successors: the newer incarnation of the same member, by the older one (R2).
    progress, highest_step: of this generation; of all generations.
    hearing_since: since when somebody of the job has been heard without a break.
    missed_at: when we last looked who is not heard of.
    written_at, phase_at: when the record's generation, and its phase, was written.
    ordered_at: when the generation's order was first seen to be out; its deadlines start then.
    stamps: milestones of this generation, by their authors' clocks.
    incident: as it should be stored; ``filed``: as it is. incident_at: since when we know it.
    last_ended: the incident that ended last.
    rescale_answer: what the rescaler said last of a wish for another size; rescale_at: when the
        wish's stage was written.
    """

    job: JobKey
    lease_revision: int
    attempts: int = 0
    record: JobRecord | None = None
    revision: int = 0
    announced: str = ""
    written_at: float = 0.0
    phase_at: float = 0.0
    ordered_at: float | None = None
    known_generation: int = 0
    observed_gang: GangSpec | None = None
    deleted_uids: frozenset[str] = frozenset()
    members: Mapping[str, MemberView] = field(default_factory=dict)
    joined: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    formed: Mapping[str, MemberFormed] = field(default_factory=dict)
    left: Mapping[str, MemberLeft] = field(default_factory=dict)
    exits: tuple[Stamped[WorkerExited], ...] = ()
    collective_failures: tuple[Stamped[CollectiveFailed], ...] = ()
    suspicions: Mapping[SuspicionKey, Suspicion] = field(default_factory=dict)
    probing: Mapping[str, Probing] = field(default_factory=dict)
    successors: Mapping[str, str] = field(default_factory=dict)
    fenced_nodes: frozenset[str] = frozenset()
    planned: Mapping[str, str] = field(default_factory=dict)
    quarantined_nodes: frozenset[str] = frozenset()
    progress: Progress = Progress()
    highest_step: int = 0
    stamps: Mapping[MilestoneName, datetime] = field(default_factory=dict)
    heard: float | None = None
    hearing_since: float = 0.0
    missed_at: float = 0.0
    blind_since: float | None = None
    blind_heard: float = 0.0
    finished_at: float | None = None
    incident: IncidentRecord | None = None
    filed: IncidentRecord | None = None
    incident_revision: int = 0
    incident_at: float = 0.0
    incidents_ended: int = 0
    last_ended: IncidentRecord | None = None
    rescale_answer: RescaleAnswered | None = None
    rescale_at: float = 0.0

    @property
    def seats(self) -> tuple[Seat, ...]:
        """The current generation's seats in rank order."""
        return self.record.seats if self.record else ()

    @property
    def generation(self) -> int:
        """The record's generation; 0 without a record."""
        return self.record.generation if self.record else 0

    def seat(self, incarnation: str) -> Seat | None:
        """The seat of this incarnation in the current generation."""
        return next((s for s in self.seats if s.member.incarnation == incarnation), None)

    def is_current(self, generation: int, verdict_id: str) -> bool:
        """Whether this is the record's generation, and not another of the same number."""
        record = self.record
        return bool(record and record.generation == generation and record.verdict_id == verdict_id)

    def asked_to_go(self, member: Member) -> str:
        """Why the member's end is somebody's plan and no failure; empty when it is not."""
        left = self.left.get(member.incarnation)
        if left is not None and left.reason in ("terminated", "finished"):
            return f"its agent said: {left.reason}"
        return self.planned.get(member.pod_uid, "")

    def blind(self, now: Moment) -> bool:
        """Whether the watcher says that it cannot tell silence from its own (R14)."""
        if self.blind_since is None:
            return False
        return now.monotonic - self.blind_heard <= BLINDNESS_BELIEVED_SECONDS

    @property
    def step_seconds_p99(self) -> float | None:
        """Of the slowest member; None while unknown, or when the loop does something else."""
        reports = [
            self.members[incarnation].report
            for incarnation in (self.record.incarnations if self.record else ())
            if incarnation in self.members
        ]
        if any(worker.phase != "step" for report in reports for worker in report.workers):
            return None
        return max((r.step_seconds_p99 for r in reports if r.step_seconds_p99), default=None)

    def stamped(self, name: MilestoneName, at: datetime, *, last: bool) -> "JobView":
        """With this milestone at the last, or else the first, of the instants told for it."""
        known = self.stamps.get(name)
        if known is not None and (known >= at if last else known <= at):
            return self
        return replace(self, stamps={**self.stamps, name: at})

    def standing(self, incarnation: str) -> tuple[Suspicion, ...]:
        """Suspicions of this incarnation that are not cleared."""
        return tuple(
            s for s in self.suspicions.values() if s.incarnation == incarnation and not s.cleared
        )
