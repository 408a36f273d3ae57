"""What is kept in key-value buckets: the truth about a job (R4), and rebuildable indexes."""

from typing import Literal

from pydantic import AwareDatetime, Field

from everstep_contract.base import Generation, Model, Name, Step, Text
from everstep_contract.identity import GangSpec, JobKey, MachineIds, Member, Seat
from everstep_contract.rescaling import Rescale
from everstep_contract.verdicts import Evidence, Verdict, VerdictKind

OrderState = Literal["run", "hold", "stop"]
RecordPhase = Literal["decided", "formed", "resumed", "holding", "ended"]
Outcome = Literal["resumed", "holding", "given_up", "dismissed"]
MilestoneName = Literal[
    "noticed", "confirmed", "decided", "ordered", "left_old_group", "agreed", "first_new_step"
]
MAX_HISTORY = 256
"""Generations a record remembers; validity of older checkpoints is in their manifests."""


class Durations(Model):
    """Deadlines as durations, counted from receipt (R27); seconds."""

    form_seconds: float = Field(gt=0, description="From the order until every member has formed.")
    construct_seconds: float = Field(gt=0, description="Building the process group.")
    hold_seconds: float = Field(gt=0, description="How long a gang below its floor is kept.")
    self_fence_seconds: float = Field(gt=0, description="R24's T.")


class GenerationStart(Model):
    """The step a generation began at: what decides which checkpoints are void (R26)."""

    generation: Generation
    start_step: Step


class Exclusion(Model):
    """A member that the newest generation leaves out, and why; input of the cluster half (R23)."""

    member: Member
    evidence: tuple[Evidence, ...]
    since: AwareDatetime


class JobRecord(Model):
    """The truth about one job and the outbox of its orders (R4); only the adjudicator writes it."""

    job: JobKey
    job_uid: Name
    generation: Generation
    verdict_id: Name
    verdict: Verdict
    reason: Text
    evidence: tuple[Evidence, ...] = ()
    decided_at: AwareDatetime
    phase: RecordPhase
    state: OrderState
    gang: GangSpec
    seats: tuple[Seat, ...] = Field(description="In rank order.")
    store_host: str | None = Field(default=None, description="Incarnation whose store is used.")
    start_step: Step | None = None
    durations: Durations
    history: tuple[GenerationStart, ...] = Field(default=(), max_length=MAX_HISTORY)
    excluded: tuple[Exclusion, ...] = ()
    incident: str | None = None
    incident_milestones: dict[MilestoneName, AwareDatetime] = Field(
        default_factory=dict,
        description="Up to this verdict: a successor rebuilds an incident that was not stored.",
    )
    failures_without_progress: int = Field(default=0, ge=0)
    failed_at_step: Step = Field(
        default=0, description="Highest completed step when the last failure was ruled on."
    )
    formed_generation: Generation = Field(
        default=0, description="Newest generation known to have formed."
    )
    formed_by: tuple[Name, ...] = Field(
        default=(), description="Its incarnations: one of them must have left it (R21)."
    )
    resumed_generation: Generation = Field(
        default=0, description="Newest generation known to have completed a step."
    )
    unspent_generations: int = Field(
        default=0,
        ge=0,
        description="Of those since then, how many followed planned leaves alone (EC-54), or held "
        "and went on by an operator's word: the restart budget is not for these.",
    )
    rescale: Rescale | None = Field(
        default=None, description="The newest wish for another size, open or over."
    )
    lease_revision: int = Field(ge=0)

    @property
    def incarnations(self) -> tuple[str, ...]:
        """The generation's members in rank order."""
        return tuple(seat.member.incarnation for seat in self.seats)


class IncidentRecord(Model):
    """One failure of one job, from the first suspicion to its end (R27)."""

    id: Name
    job: JobKey
    job_uid: Name
    opened_at: AwareDatetime
    suspected: tuple[Member, ...]
    verdict: VerdictKind | None = None
    reason: Text = ""
    evidence: tuple[Evidence, ...] = ()
    generation_before: Generation
    generation_after: Generation | None = None
    milestones: dict[MilestoneName, AwareDatetime] = Field(default_factory=dict)
    steps_lost: int | None = Field(default=None, ge=0)
    outcome: Outcome | None = Field(default=None, description="None while it is open.")
    ended_at: AwareDatetime | None = None


QuarantineCause = Literal["hardware", "repetition", "silence", "operator", "maintenance"]
"""The first three are Everstep's own; only a silence ends without a person's word."""
MAX_RELEASED = 16


class NodeRecord(Model):
    """What Everstep did to a node, so that only that is undone (R25)."""

    node: Name
    node_uid: str = Field(default="", max_length=253, description="Of the object written to.")
    boot_id: str = ""
    machines: MachineIds = ()
    deleted: bool = Field(
        default=False, description="The node is gone; its machine may come back by another name."
    )
    quarantined_by: str | None = Field(default=None, description="The incident's id.")
    released_from: str | None = Field(
        default=None, description="Incident whose quarantine ended: only a new fault begins one."
    )
    released_before: tuple[Name, ...] = Field(
        default=(), max_length=MAX_RELEASED, description="Such incidents of before, newest first."
    )
    cause: QuarantineCause | None = None
    by: str = Field(default="", max_length=253, description="Who asked; empty: Everstep itself.")
    drain_seconds: float = Field(
        default=0.0,
        ge=0,
        description="How long members are evicted, counted by whoever does it (R27).",
    )
    cordoned_by_us: bool = False
    tainted_by_us: bool = False
    job: JobKey | None = Field(default=None, description="Whose failure it was.")
    job_uid: str = ""
    generation: Generation = 0
    reason: Text = ""
    at: AwareDatetime

    @property
    def counts(self) -> bool:
        """Whether it keeps a node away from everybody, as the brake counts."""
        return self.quarantined_by is not None and not self.deleted


class CheckpointRecord(Model):
    """One committed checkpoint of a job, as the index knows it."""

    job: JobKey
    checkpoint: Name
    lineage: Name
    generation: Generation
    step: Step
    path: str = Field(max_length=4096)
    total_bytes: int = Field(ge=0)
    committed_at: AwareDatetime
    verified_at: AwareDatetime | None = Field(
        default=None, description="When it was last read back whole."
    )
    damage: Text = Field(default="", description="What is wrong with it; empty: nothing known.")
    pinned: bool = Field(default=False, description="Somebody wants it kept.")


class LeaseRecord(Model):
    """Who leads. It expires by an unmoved revision, never by comparing clocks (R5)."""

    holder: Name
    renewals: int = Field(ge=0)
    expiry_seconds: float | None = Field(
        default=None,
        gt=0,
        description="How long the revision must stand still before another may take it; "
        "who would take it sooner waits as long.",
    )
