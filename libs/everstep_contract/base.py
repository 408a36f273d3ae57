"""What messages have in common: frozen, tolerant of unknown fields, ids that can be recomputed."""

from typing import Annotated, ClassVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

Name = Annotated[str, Field(min_length=1, max_length=253)]
EXACT: int = 2**53 - 1
"""Larger whole numbers are not the same number to every reader of JSON (RFC 8259, section 6)."""
Generation = Annotated[int, Field(ge=0, le=EXACT)]
"""Version of a job's membership; 0 means that the job has none yet."""
Step = Annotated[int, Field(ge=0, le=EXACT)]
"""Completed optimizer steps; 0 before the first."""
MAX_TEXT: int = 2000
Text = Annotated[str, Field(max_length=MAX_TEXT)]
"""A sentence for people, bounded so that no message grows without limit."""


class Model(BaseModel):
    """A frozen value; readers ignore fields they do not know, so that v1 may grow."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Message(Model):
    """Anything with a type of its own on the wire."""

    TYPE: ClassVar[str]


class Event(Message):
    """A fact. ``at`` is when its author saw it, by the author's clock."""

    at: AwareDatetime

    @property
    def dedup_id(self) -> str:
        """The id of this fact, the same whoever computes it and however often it is published."""
        raise NotImplementedError

    @property
    def entity_id(self) -> str:
        """Which one of its entities the fact is about; a token of its subject."""
        raise NotImplementedError
