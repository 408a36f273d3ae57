"""What the workers themselves wrote down: the drill believes them, not the controller."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

WARM_UP_STEPS: Final = 2
"""First steps of a generation are slower (buckets, caches) and say nothing about its pace."""
LOSS_WINDOW_STEPS: Final = 5
"""Losses are averaged over this many steps before they are compared."""


@dataclass(frozen=True)
class StepLine:
    """One completed step of one worker. ``at``: seconds since the epoch, this machine's clock."""

    at: float
    pid: int
    rank: int
    world_size: int
    generation: int
    step: int
    loss: float | None


def read_steps(folder: Path) -> tuple[StepLine, ...]:
    """Every step in the folder's ``*.jsonl``, by time; a line cut by its writer's death is none."""
    found = (line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines())
    return steps_of(found)


def steps_of(lines: Iterable[str]) -> tuple[StepLine, ...]:
    """The steps among log lines, by time."""
    steps = [step for line in lines if (step := _step_of(line)) is not None]
    return tuple(sorted(steps, key=lambda step: (step.at, step.rank)))


def _step_of(line: str) -> StepLine | None:
    try:
        fields: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    if fields.get("event") != "step":
        return None
    wanted = StepLine.__dataclass_fields__.keys() - {"at"}
    return StepLine(at=fields["wall"], **{name: fields[name] for name in wanted})


def steps_lost(steps: Sequence[StepLine]) -> int:
    """Steps that were completed and had to be done again, over all changes of generation.

    What counts is the newest step of a worker that lives on; when none does, of any.
    """
    lost = 0
    by_generation = _by_generation(steps)
    for before, after in pairwise(by_generation):
        alive = {step.pid for step in after}
        kept = [step for step in before if step.pid in alive] or before
        lost += max(0, max(step.step for step in kept) - min(step.step for step in after) + 1)
    return lost


def out_of_turn(steps: Sequence[StepLine]) -> list[str]:
    """The first step that a worker repeated or left out within a generation; empty if none did."""
    newest: dict[tuple[int, int], int] = {}
    for step in steps:
        before = newest.get((step.generation, step.pid))
        if before is not None and step.step != before + 1:
            where = f"generation {step.generation}"
            return [f"rank {step.rank} went from step {before} to {step.step} in {where}"]
        newest[step.generation, step.pid] = step.step
    return []


def workers_kept(steps: Sequence[StepLine], hurt_pids: frozenset[int]) -> bool:
    """Whether every worker that nobody hurt stepped on, in the same process, to the end."""
    by_generation = _by_generation(steps)
    last = {step.pid for step in by_generation[-1]} if by_generation else set()
    return all(step.pid in last for step in steps if step.pid not in hurt_pids)


def median_step_seconds(steps: Sequence[StepLine], *, until: float) -> float | None:
    """How long a step took before ``until`` (seconds since the epoch); None without any."""
    leads = [step for step in steps if step.rank == 0 and step.at < until]
    lasted = [
        after.at - before.at
        for before, after in pairwise(leads[WARM_UP_STEPS:])
        if before.generation == after.generation
    ]
    return median(lasted) if lasted else None


def losses(steps: Sequence[StepLine]) -> tuple[float | None, float | None]:
    """The loss at the start and at the end, each a mean over a few steps of rank 0.

    None where the script tells `Step.completed` no loss.
    """
    found = [step.loss for step in steps if step.rank == 0 and step.loss is not None]
    if not found:
        return None, None
    return fmean(found[:LOSS_WINDOW_STEPS]), fmean(found[-LOSS_WINDOW_STEPS:])


def first_step_of(steps: Sequence[StepLine], generation: int) -> StepLine | None:
    """The first step of a generation, or of the next one if it took none."""
    return next((step for step in steps if step.generation >= generation), None)


def _by_generation(steps: Sequence[StepLine]) -> list[list[StepLine]]:
    generations = sorted({step.generation for step in steps})
    return [[step for step in steps if step.generation == number] for number in generations]
