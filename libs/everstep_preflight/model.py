"""Frozen values that rules reason about: what a rule is, what it found, what would put it right."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from everstep_preflight.located import Located, Path, show_path


class Severity(StrEnum):
    """How bad it is. ``error``: the job will not heal, or not run. ``warning``: it may not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True)
class Rule:
    """One kind of mistake. ``why`` and ``source`` say on what the rule rests."""

    id: str
    severity: Severity
    summary: str
    why: str
    source: str


@dataclass(frozen=True)
class Target:
    """A value of a document; the last part of ``path`` may not be there yet."""

    file: str
    document: int
    path: Path


@dataclass(frozen=True)
class SetValue:
    """Give a field this value; where the field is new, put it after its neighbour ``after``."""

    target: Target
    value: Any
    after: str = ""


@dataclass(frozen=True)
class Append:
    """Add an item to a list, which is made if need be."""

    target: Target
    value: Any


@dataclass(frozen=True)
class Remove:
    """Take a field or an item away, and a list that would be left empty with it."""

    target: Target


@dataclass(frozen=True)
class ReplaceWords:
    """Change some words, which stand there once, inside a string."""

    target: Target
    old: str
    new: str


@dataclass(frozen=True)
class RemoveDocument:
    """Take a whole document away."""

    target: Target


Change = SetValue | Append | Remove | ReplaceWords | RemoveDocument


@dataclass(frozen=True)
class Finding:
    """A mistake at a place. Without ``fix`` a person has to decide; ``advice`` says what."""

    rule: Rule
    at: Located
    message: str
    line: int
    fix: tuple[Change, ...] = ()
    advice: str = ""
    recreate: bool = False

    @property
    def where(self) -> str:
        """File and line."""
        return f"{self.at.file}:{self.line}"

    @property
    def path(self) -> str:
        """The field."""
        return show_path(self.at.path)


def target(at: Located, *below: str | int) -> Target:
    """The field itself, or one below it."""
    return Target(at.file, at.document, (*at.path, *below))
