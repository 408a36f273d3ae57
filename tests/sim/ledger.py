"""What happened in a simulated history, and the promises that no history may break (DESIGN 10)."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from everstep_contract.orders import Order
from everstep_contract.record import JobRecord

KEPT_LINES: Final = 400


class BrokenPromiseError(AssertionError):
    """A promise of DESIGN 10 does not hold in this history."""


@dataclass
class Ledger:
    """Observes everything from outside; nobody in the simulation reads it.

    ``steps``: highest step completed, by (generation, verdict id). ``obeyed``: verdict id of the
    order that agents obeyed under each generation. ``reused``: generations that were decided
    though agents had obeyed another verdict under the same number.
    """

    min_member: int
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    steps: dict[tuple[int, str], int] = field(default_factory=dict)
    newest_stepping: int = 0
    obeyed: dict[int, str] = field(default_factory=dict)
    records: list[JobRecord] = field(default_factory=list)
    reused: list[int] = field(default_factory=list)
    steps_lost: int = 0
    highest_step: int = 0
    broken: BrokenPromiseError | None = None

    def say(self, at: float, what: str) -> None:
        """One line of the history."""
        self.lines.append(f"{at:9.3f}  {what}")

    def breach(self, why: str) -> None:
        """A promise is broken; the first one is raised at the next look."""
        self.lines.append(f"BROKEN: {why}")
        self.broken = self.broken or BrokenPromiseError(why)

    def completed(self, generation: int, verdict_id: str, step: int, members: int) -> None:
        """Every worker of a group contributed to a step: the generation completed it."""
        if generation < self.newest_stepping:
            self.breach(f"generation {generation} steps after {self.newest_stepping} did")
        for (other, other_id), newest in self.steps.items():
            if other == generation and other_id != verdict_id:
                self.breach(f"two verdicts of generation {generation} step (to {newest}, {step})")
        if members < self.min_member:
            self.breach(f"{members} members step, min_member is {self.min_member}")
        self.newest_stepping = max(self.newest_stepping, generation)
        self.steps[generation, verdict_id] = step
        self.highest_step = max(self.highest_step, step)

    def may_run_with(self, members: int) -> None:
        """An operator allowed so few, at least for a while: from now on it is no breach."""
        self.min_member = min(self.min_member, members)

    def agreed(self, step: int, best_living_version: int) -> None:
        """A group agreed on the state to go on from."""
        self.steps_lost += max(0, self.highest_step - step)
        if step < best_living_version:
            self.breach(f"agreed on step {step}, a living member holds {best_living_version}")
        self.highest_step = step

    def obeys(self, incarnation: str, order: Order) -> None:
        """An agent obeys an order."""
        known = self.obeyed.setdefault(order.generation, order.verdict_id)
        if known != order.verdict_id:
            self.breach(
                f"{incarnation} obeys {order.verdict_id!r} in generation {order.generation},"
                f" another obeyed {known!r}"
            )

    def recorded(self, record: JobRecord) -> None:
        """The adjudicator wrote a new generation."""
        self.records.append(record)
        if self.obeyed.get(record.generation, record.verdict_id) != record.verdict_id:
            self.reused.append(record.generation)
        if record.state == "run" and len(record.seats) < self.min_member:
            self.breach(f"generation {record.generation} runs below min_member")

    def check(self) -> None:
        """Raise what was broken first."""
        if self.broken is not None:
            raise self.broken
