"""One job at one instant: what every rule is given, and what several of them ask."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from everstep_contract.record import JobRecord
from everstep_runtime.clock import Moment

from everstep_adjudicator.evidence import Judgement, judge, silent
from everstep_adjudicator.model import JobView
from everstep_adjudicator.policy import Policy

LISTED: Final = 6
"""Names that one reason gives: six of the longest fit into a record, the hundreds of a lost rack
do not."""


@dataclass(frozen=True)
class Case:
    """A job's view with the judgement of each seat, in rank order."""

    view: JobView
    policy: Policy
    now: Moment
    judgements: tuple[Judgement, ...]

    @classmethod
    def of(cls, view: JobView, policy: Policy, now: Moment) -> "Case":
        """The case as the evidence stands."""
        return cls(view, policy, now, judge(view, policy, now))

    @property
    def running(self) -> JobRecord | None:
        """The record while its members are ordered to run."""
        record = self.view.record
        return record if record and record.state == "run" and record.phase != "ended" else None

    @property
    def holding(self) -> JobRecord | None:
        """The record while its members are ordered to keep their state and wait."""
        record = self.view.record
        return record if record and record.state == "hold" and record.phase != "ended" else None

    @property
    def unresumed(self) -> int:
        """Generations in a row that completed no step, the current one included."""
        record = self.view.record
        return record.generation - record.resumed_generation if record else 0

    @property
    def unspent(self) -> int:
        """How many of those followed planned leaves alone: the restart budget is not for these."""
        return self.view.record.unspent_generations if self.view.record else 0

    @property
    def condemned(self) -> tuple[Judgement, ...]:
        """Who is lost for good as far as the evidence goes."""
        return tuple(j for j in self.judgements if j.condemned_at is not None)

    @property
    def undecided(self) -> tuple[Judgement, ...]:
        """Silent members that are being looked at; a first answer takes a fraction of a second."""
        return tuple(
            j
            for j in self.judgements
            if j.condemned_at is None and silent(self.view, j.incarnation) and self._looking(j)
        )

    @property
    def settle_seconds(self) -> float:
        """How long a proven loss waits for the undecided, so that few generations follow (EC-43).

        Where nobody else is heard, nobody could go on either: the whole job may be gone, and begins
        anew as a whole when that is known.
        """
        unheard = len(self.condemned) + len(self.undecided) == len(self.judgements)
        return self.policy.form_settle_seconds if unheard else self.policy.settle_seconds

    def _looking(self, judgement: Judgement) -> bool:
        probing = self.view.probing.get(judgement.incarnation)
        return probing is None or probing.rounds <= self.policy.probe_rounds

    def joined(self, incarnation: str) -> bool:
        """Whether it waits at the current generation's barrier, or is past it."""
        record = self.view.record
        return bool(
            record and self.view.joined.get(incarnation) == (record.generation, record.verdict_id)
        )

    def formed(self, incarnation: str) -> bool:
        """Whether it is in the current generation's group."""
        if incarnation in self.view.formed:
            return True
        member = self.view.members.get(incarnation)
        if member is None:
            return False
        report = member.report
        current = self.view.is_current(report.generation, report.verdict_id)
        return current and report.phase in ("formed", "stepping")


def listed(words: Iterable[str], separator: str = ", ") -> str:
    """The first of these, and how many more there are."""
    every = tuple(words)
    more = len(every) - LISTED
    return separator.join(every[:LISTED]) + (f" and {more} more" if more > 0 else "")
