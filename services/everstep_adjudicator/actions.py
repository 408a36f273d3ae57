"""What the adjudicator learns from its own doing, and what it decides to do next."""

from dataclasses import dataclass

from everstep_contract.base import Event
from everstep_contract.queries import ProbeMember, ProbeOutcome
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_contract.telemetry import MemberReport


@dataclass(frozen=True)
class Recorded:
    """The job's record as it is stored: read, or just written by us, with its incident."""

    record: JobRecord | None
    revision: int
    incident: IncidentRecord | None = None


@dataclass(frozen=True)
class Attempted:
    """A verdict id was used, whatever becomes of the write."""


@dataclass(frozen=True)
class Announced:
    """The event of the record with this verdict id is published."""

    verdict_id: str


@dataclass(frozen=True)
class Filed:
    """An incident as it is stored."""

    incident: IncidentRecord
    revision: int


@dataclass(frozen=True)
class Asked:
    """These probes were sent."""

    probes: tuple[ProbeMember, ...]


@dataclass(frozen=True)
class ProbeEnded:
    """One probe came back; ``outcome`` is None when the witness did not answer."""

    target: str
    witness: str
    outcome: ProbeOutcome | None
    detail: str = ""


@dataclass(frozen=True)
class Quarantined:
    """The nodes that are quarantined now, by their records."""

    nodes: frozenset[str]


Own = Recorded | Attempted | Announced | Filed | Asked | ProbeEnded | Quarantined
"""What the adjudicator learns from what it did itself."""
Heard = Event | MemberReport | Own


@dataclass(frozen=True)
class Rule:
    """A new generation: compare-and-set the record, then publish its event (R4)."""

    record: JobRecord
    incident: IncidentRecord | None = None


@dataclass(frozen=True)
class Advance:
    """The same generation in another phase: compare-and-set the record."""

    record: JobRecord


@dataclass(frozen=True)
class Announce:
    """Publish the event of a record that is written (R6)."""

    record: JobRecord


@dataclass(frozen=True)
class Ask:
    """Have these members looked at by others (R11)."""

    probes: tuple[ProbeMember, ...]


@dataclass(frozen=True)
class File:
    """Store the incident, and publish its opening or its end."""

    incident: IncidentRecord


@dataclass(frozen=True)
class Refuse:
    """An operator's command cannot be obeyed."""


@dataclass(frozen=True)
class Wait:
    """Nothing to do before ``until`` (monotonic seconds; None: before the next fact)."""

    until: float | None


Action = Rule | Advance | Announce | Ask | File | Refuse | Wait


@dataclass(frozen=True)
class Decision:
    """What to do next, and why, in a sentence for people."""

    action: Action
    reason: str


@dataclass(frozen=True)
class Later:
    """A rule that only time, or a fact, will decide; ``at`` in monotonic seconds."""

    at: float | None
    why: str
