"""The order: a job's whole desired state under one generation (R7)."""

from typing import ClassVar

from pydantic import Field

from everstep_contract.base import Generation, Message, Name, Step, Text
from everstep_contract.identity import JobKey, Seat
from everstep_contract.record import MAX_HISTORY, Durations, GenerationStart, OrderState


class Order(Message):
    """What every agent of the job shall do; it replaces all earlier ones."""

    TYPE: ClassVar[str] = "everstep.order.v1"

    job: JobKey
    job_uid: Name
    generation: Generation
    verdict_id: Name
    state: OrderState
    seats: tuple[Seat, ...] = Field(default=(), description="In rank order.")
    store_host: str | None = Field(default=None, description="Incarnation whose store is used.")
    start_step: Step | None = None
    history: tuple[GenerationStart, ...] = Field(
        default=(),
        max_length=MAX_HISTORY,
        description="Where generations before this one began: what is void must not be loaded.",
    )
    durations: Durations
    restart: tuple[str, ...] = Field(default=(), description="Members whose workers start anew.")
    reason: Text = Field(default="", description="Of the verdict, for people.")

    def seat_of(self, incarnation: str) -> Seat | None:
        """The seat of this incarnation, or None when the order does not list it."""
        return next((s for s in self.seats if s.member.incarnation == incarnation), None)

    def first_rank(self, incarnation: str) -> int:
        """The rank of the member's first worker: its predecessors' workers come before."""
        rank = 0
        for seat in self.seats:
            if seat.member.incarnation == incarnation:
                return rank
            rank += seat.nproc
        raise ValueError(f"order {self.generation} does not list {incarnation!r}")

    @property
    def world_size(self) -> int:
        """Workers of all members."""
        return sum(seat.nproc for seat in self.seats)

    @property
    def store_prefix(self) -> str:
        """Key prefix of this generation on the store (R17): never shared by two verdicts."""
        return f"g{self.generation}-{self.verdict_id}"
