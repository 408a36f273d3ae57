"""What could not be handled, with the reason (R15)."""

from typing import ClassVar, Literal

from pydantic import AwareDatetime, Field

from everstep_contract.base import Message, Text

DeathCause = Literal["undecodable", "rejected", "deliveries_exhausted"]


class DeadLetter(Message):
    """A message that could not be decoded, or that its handler always fails on."""

    TYPE: ClassVar[str] = "everstep.dlq.dead_letter.v1"

    at: AwareDatetime
    subject: str = Field(max_length=1000)
    consumer: str = Field(max_length=253)
    cause: DeathCause
    reason: Text
    deliveries: int = Field(ge=1)
    payload_base64: str = Field(max_length=96_000, description="At most its first 64 KiB.")
