"""The JSON document of a drill; later faults extend the table and keep the document."""

from typing import Annotated

from everstep_contract.base import Model
from everstep_contract.facts.member import StateSource
from everstep_contract.record import MilestoneName, Outcome
from everstep_contract.verdicts import VerdictKind
from pydantic import AfterValidator


def _milliseconds(seconds: float) -> float:
    return round(seconds, 3)


Seconds = Annotated[float, AfterValidator(_milliseconds)]
Milestones = dict[MilestoneName, Seconds | None]
"""Every milestone, in seconds from the fault; None where it does not apply."""


class IncidentResult(Model):
    """One incident of the drill."""

    id: str
    verdict: VerdictKind | None
    outcome: Outcome | None
    generation_before: int
    generation_after: int | None
    milestones_seconds: Milestones
    steps_lost: int | None


class Restored(Model):
    """Where the state came from that the job went on with; seconds from the fault.

    A checkpoint is verified in the pass that loads it, so ``loaded`` means verified.
    """

    source: StateSource
    checkpoint: str
    step: int
    chosen_seconds: Seconds | None
    loaded_seconds: Seconds | None


class TorchrunResult(Model):
    """What plain torchrun did with the same work and fault."""

    healed: bool
    first_new_step_seconds: Seconds | None
    steps_lost: int | None


class Against(Model):
    """What Everstep was compared with."""

    torchrun: TorchrunResult | None = None


class Leftovers(Model):
    """What the drill left behind after it was taken down."""

    processes: int
    shared_memory_files: int


class DrillDocument(Model):
    """Everything a drill found; ``steps_lost`` is counted from the workers' own logs."""

    fault: str
    target: str
    healed: bool
    expected_verdict: str
    verdicts: tuple[VerdictKind, ...]
    members_before: int
    members_lowest: int
    members_after: int
    min_member: int
    generation_before: int
    generation_after: int
    milestones_seconds: Milestones
    incidents: tuple[IncidentResult, ...]
    steps_lost: int | None
    restored: Restored | None = None
    checkpoints_committed: int = 0
    saves_failed: int = 0
    damaged_checkpoint: str = ""
    workers_kept: bool
    median_step_seconds: Seconds | None
    false_suspicions: int
    loss_first: float | None
    loss_last: float | None
    against: Against
    ratio: float | None
    leftovers: Leftovers

    @property
    def succeeded(self) -> bool:
        """Healed, and nothing left behind."""
        left = self.leftovers
        return self.healed and not left.processes and not left.shared_memory_files
