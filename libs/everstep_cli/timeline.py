"""An incident as a timeline: where its time went, stage by stage, and what each may cost."""

from dataclasses import dataclass
from typing import Final, get_args

from everstep_contract.record import IncidentRecord, MilestoneName

MILESTONES: Final[tuple[MilestoneName, ...]] = get_args(MilestoneName)
BUDGET_SECONDS: Final[dict[MilestoneName, float | None]] = {
    "noticed": None,
    "confirmed": 1.0,
    "decided": 0.02,
    "ordered": 0.05,
    "left_old_group": 0.25,
    "agreed": 0.25,
    "first_new_step": None,
}
"""What a stage may take, from the one before it. The first has none before it, and the last is
as long as a step of the job."""


@dataclass(frozen=True)
class Stage:
    """One milestone: since the incident's first, and since the one before it, in seconds.

    Both are None for a milestone that was not reached.
    """

    name: MilestoneName
    since_first_seconds: float | None
    seconds: float | None
    budget_seconds: float | None

    @property
    def over_budget(self) -> bool:
        """Whether it took longer than it may."""
        return bool(self.seconds and self.budget_seconds and self.seconds > self.budget_seconds)


def timeline(incident: IncidentRecord) -> tuple[Stage, ...]:
    """All milestones in their order; the stages' seconds add up to the whole."""
    reached = [(name, at) for name in MILESTONES if (at := incident.milestones.get(name))]
    first = reached[0][1] if reached else None
    previous, stages = first, {}
    for name, at in reached:
        assert first is not None
        assert previous is not None
        since, took = (at - first).total_seconds(), (at - previous).total_seconds()
        stages[name] = Stage(name, since, took, BUDGET_SECONDS[name])
        previous = at
    return tuple(
        stages.get(name, Stage(name, None, None, BUDGET_SECONDS[name])) for name in MILESTONES
    )


def total_seconds(incident: IncidentRecord) -> float:
    """From the first milestone to the last one reached."""
    return sum(stage.seconds or 0.0 for stage in timeline(incident))
