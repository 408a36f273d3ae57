"""Facts about single workers, told by their agent."""

from typing import ClassVar, Literal

from pydantic import Field

from everstep_contract.base import Generation, Name, Text
from everstep_contract.facts.member import MemberEvent

ExitClass = Literal["finished", "application", "killed", "out_of_memory", "hardware", "unknown"]


class WorkerExited(MemberEvent):
    """The agent's pidfd of its worker became readable: conclusive (R11)."""

    TYPE: ClassVar[str] = "everstep.worker.exited.v1"

    local_rank: int = Field(ge=0)
    pid: int = Field(ge=1)
    generation: Generation
    exit_code: int | None = None
    signal: int | None = None
    classified: ExitClass
    detail: Text = ""

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.local_rank}/{self.pid}"


class CollectiveFailed(MemberEvent):
    """A survivor's collective failed: a second witness, never proof by itself (R13)."""

    TYPE: ClassVar[str] = "everstep.worker.collective_failed.v1"

    local_rank: int = Field(ge=0)
    generation: Generation
    verdict_id: Name
    peer: str | None = Field(default=None, description="Incarnation the error names, if any.")
    detail: Text = ""

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.local_rank}/{self.verdict_id}"
