"""Drives the adjudicator's pure core in tests: facts are told by hand, and time is moved by hand.

The loop of the service without its I/O: every write succeeds at once, every event is published.
"""

from datetime import UTC, datetime, timedelta

from everstep_adjudicator.actions import (
    Advance,
    Announce,
    Announced,
    Ask,
    Asked,
    Attempted,
    File,
    Filed,
    Heard,
    Recorded,
    Rule,
    Wait,
)
from everstep_adjudicator.decide import decide
from everstep_adjudicator.fold import fold
from everstep_adjudicator.model import JobView
from everstep_adjudicator.policy import Policy
from everstep_contract.queries import ProbeMember
from everstep_contract.record import IncidentRecord, JobRecord
from everstep_runtime.clock import Moment
from support.messages import JOB

START = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


class AdjudicatorCore:
    """The view of one job, and everything ruled so far."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.monotonic = 1000.0
        self.view = JobView(job=JOB, lease_revision=7)
        self.records: list[JobRecord] = []
        self.incidents: list[IncidentRecord] = []
        self.probes: list[ProbeMember] = []
        self.waiting_for = ""
        self.until: float | None = None

    @property
    def now(self) -> Moment:
        return Moment(START + timedelta(seconds=self.monotonic - 1000.0), self.monotonic)

    @property
    def record(self) -> JobRecord:
        assert self.view.record is not None
        return self.view.record

    def phase(self) -> str:
        """The record's phase; a call, because it changes between two assertions."""
        return self.record.phase

    def state(self) -> str:
        """What the record orders; a call, because it changes between two assertions."""
        return self.record.state

    @property
    def verdicts(self) -> list[str]:
        return [record.verdict.kind for record in self.records]

    @property
    def names(self) -> list[str]:
        return [seat.member.incarnation for seat in self.record.seats]

    def hear(self, *facts: Heard) -> None:
        """Fold the facts one by one, ruling after each, as the service does."""
        for fact in facts:
            self.view = fold(self.view, fact, self.now)
            self.rule()

    def fold(self, *facts: Heard) -> None:
        """Fold the facts without ruling in between."""
        for fact in facts:
            self.view = fold(self.view, fact, self.now)

    def rule(self) -> None:
        """Decide and enact until there is nothing left to do."""
        for _ in range(100):
            decision = decide(self.view, self.policy, self.now)
            match decision.action:
                case Wait(until=until):
                    self.until, self.waiting_for = until, decision.reason
                    return
                case Rule(record=record, incident=incident):
                    self.records.append(record)
                    revision = self.view.revision + 1
                    self.fold(Attempted(), Recorded(record, revision, incident))
                case Advance(record=record):
                    self.fold(Recorded(record, self.view.revision + 1))
                case Announce(record=record):
                    self.fold(Announced(record.verdict_id))
                case Ask(probes=probes):
                    self.probes += probes
                    self.fold(Asked(probes))
                case File(incident=incident):
                    if incident.outcome is not None:
                        self.incidents.append(incident)
                    self.fold(Filed(incident, self.view.incident_revision + 1))
                case other:
                    raise AssertionError(other)
        raise AssertionError(f"no end of decisions: {decision}")
