"""Facts about members: what their agents say, and what others see of them."""

from typing import ClassVar, Literal

from pydantic import Field

from everstep_contract.base import Event, Generation, Name, Step, Text
from everstep_contract.identity import JobKey, Member
from everstep_contract.telemetry import MemberReport


class MemberEvent(Event):
    """A fact about one incarnation."""

    job: JobKey
    member: Member

    @property
    def entity_id(self) -> str:
        return self.member.incarnation


class MemberJoined(MemberEvent):
    """The member is ready for ``generation``: it left its old group and is warm (R16, R19).

    Generation 0 announces a candidate. The report says everything the adjudicator needs.
    """

    TYPE: ClassVar[str] = "everstep.member.joined.v1"

    generation: Generation
    verdict_id: str = Field(default="", max_length=253)
    report: MemberReport

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.generation}/{self.verdict_id}"


StateSource = Literal["fresh", "living", "memory", "disk"]
"""fresh: the script's own beginning · living: some worker held it · memory: a snapshot that
outlived its worker · disk: a checkpoint."""


class MemberFormed(MemberEvent):
    """Every worker of the member is in the new group and holds the agreed state."""

    TYPE: ClassVar[str] = "everstep.member.formed.v1"

    generation: Generation
    verdict_id: Name
    agreed_step: Step
    steps_lost: int = Field(ge=0, description="Newest step any of its workers held, less agreed.")
    left_seconds: float = Field(ge=0, description="From receipt of the order.")
    formed_seconds: float = Field(ge=0, description="From receipt of the order.")
    source: StateSource = Field(default="living", description="Where the agreed state comes from.")
    checkpoint: str = Field(default="", max_length=253, description="Which one; empty: none.")
    chosen_seconds: float | None = Field(
        default=None, ge=0, description="From receipt of the order until a source was chosen."
    )
    loaded_seconds: float | None = Field(
        default=None, ge=0, description="From receipt of the order until it was loaded, verified."
    )

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.generation}/{self.verdict_id}"


class MemberLeft(MemberEvent):
    """The agent ends on its own account; only this member goes (EC-20)."""

    TYPE: ClassVar[str] = "everstep.member.left.v1"

    reason: Literal["terminated", "finished", "failed", "fenced"]
    detail: Text = ""

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}"


class OrderRefused(MemberEvent):
    """An order of a known generation with another verdict id (R9): somebody is split-brained."""

    TYPE: ClassVar[str] = "everstep.member.order_refused.v1"

    generation: Generation
    verdict_id: Name
    obeyed_verdict_id: Name

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.generation}/{self.verdict_id}"


SuspicionReason = Literal[
    "connection_closed",
    "connection_stale",
    "not_connected",
    "pod_terminated",
    "pod_deleted",
    "node_not_ready",
    "node_rebooted",
]


class MemberSuspected(MemberEvent):
    """One detector believes the member is failing; nothing has been decided.

    ``observation`` counts suspicions of this incarnation since it last recovered by the detector
    ``witness``; a standing suspicion is reasserted under a higher ``reassertion`` (R10).
    """

    TYPE: ClassVar[str] = "everstep.member.suspected.v1"

    reason: SuspicionReason
    witness: Name
    observation: int = Field(ge=1)
    reassertion: int = Field(default=0, ge=0)
    silence_seconds: float = Field(ge=0)
    detail: Text = ""

    @property
    def dedup_id(self) -> str:
        return (
            f"{self.TYPE}/{self.member.incarnation}/{self.witness}/{self.reason}"
            f"/{self.observation}/{self.reassertion}"
        )


class MemberRecovered(MemberEvent):
    """The same incarnation is connected again: its standing suspicions of that kind end (R12)."""

    TYPE: ClassVar[str] = "everstep.member.recovered.v1"

    witness: Name
    observation: int = Field(ge=1)

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.witness}/{self.observation}"
