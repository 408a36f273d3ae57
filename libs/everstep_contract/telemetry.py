"""What an agent says of itself, at most twice a second, and whenever something changed.

A report carries the agent's whole state, so that a lost fact costs half a second and no more.
"""

from typing import ClassVar, Literal

from pydantic import AwareDatetime, Field

from everstep_contract.base import Generation, Message, Model, Step
from everstep_contract.identity import Endpoint, GangSpec, JobKey, Member

MemberPhase = Literal[
    "starting", "ready", "leaving", "joined", "formed", "stepping", "holding", "stopped"
]
"""starting: workers not warm · ready: candidate, warm (R19) · leaving: told to leave a group ·
joined: left, waiting at the new generation's barrier · formed: group made, state agreed ·
stepping: first step of the generation completed · holding: parked with its state (R20) ·
stopped: told to stop."""


class WorkerReport(Model):
    """One worker of a member."""

    local_rank: int = Field(ge=0)
    pid: int = Field(ge=0)
    version: int = Field(ge=-1, description="State version; -1: not whole (R22).")
    step_begun: int = Field(ge=0, description="Index of the newest step begun (R12).")
    phase: str = Field(max_length=64, description="What the loop is doing: step, evaluate, ...")


class MemberReport(Message):
    """An agent's state. Of two reports of one incarnation the higher ``sequence`` is newer."""

    TYPE: ClassVar[str] = "everstep.member.report.v1"

    at: AwareDatetime
    job: JobKey
    member: Member
    gang: GangSpec
    peer: Endpoint
    store: Endpoint
    boot_id: str = Field(max_length=64)
    sequence: int = Field(ge=0)
    phase: MemberPhase
    generation: Generation = Field(description="Of the newest order obeyed; 0: none.")
    verdict_id: str = Field(default="", max_length=253)
    left_generation: Generation = Field(default=0, description="Newest generation left (R21).")
    saved_generation: Generation = Field(
        default=0,
        description="Highest generation that checkpoints of this life of the job are of: the next "
        "is higher, even if the bus has forgotten the job (R5).",
    )
    step: Step = Field(description="Newest step completed by every worker of the member.")
    step_begun: Step = Field(description="Newest step begun by any worker of the member.")
    replicated_step: Step | None = Field(
        default=None,
        description="Newest step of this generation of which a peer keeps all that is this "
        "member's own.",
    )
    step_seconds_p50: float | None = Field(default=None, ge=0)
    step_seconds_p99: float | None = Field(default=None, ge=0)
    workers: tuple[WorkerReport, ...]

    @property
    def version(self) -> int:
        """The state version that every worker holds; -1 when some worker holds none."""
        return min((worker.version for worker in self.workers), default=-1)
