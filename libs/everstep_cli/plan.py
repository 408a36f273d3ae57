"""`everstep plan`: how often to snapshot and to checkpoint, by what was measured."""

import json
import math
import sys
from dataclasses import asdict, dataclass, fields
from typing import Final

from everstep_checkpoint.cadence import (
    DAY_SECONDS,
    Because,
    Cadence,
    Measured,
    job_mtbf_seconds,
    plan,
)
from rich.table import Column, Table

from everstep_cli.errors import MisuseError
from everstep_cli.terminal import output

ABOVE_ZERO: Final = ("step_seconds", "members", "member_mtbf_days", "most_stall_percent")
WHY: Final[dict[Because, str]] = {
    "optimum": "Daly's optimum",
    "snapshots": "each snapshot is one: none comes sooner",
    "flush": "writing one takes that long; the optimum is shorter",
    "longest": "the most that may be lost; the optimum is longer",
}


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """What the command line gives."""

    step_seconds: float
    stall_seconds: float
    flush_seconds: float
    members: int
    member_mtbf_days: float
    restart_seconds: float
    most_stall_percent: float


def show_plan(numbers: Numbers, *, as_json: bool) -> None:
    """Print the cadence.

    Raises:
        MisuseError: A number makes no sense.
    """
    _require_sense(numbers)
    mtbf_seconds = job_mtbf_seconds(numbers.member_mtbf_days * DAY_SECONDS, numbers.members)
    measured = Measured(
        numbers.step_seconds,
        numbers.stall_seconds,
        numbers.flush_seconds,
        mtbf_seconds,
        numbers.restart_seconds,
    )
    cadence = plan(measured, most_stall_share=numbers.most_stall_percent / 100)
    if cadence is None:
        raise MisuseError(f"--step-seconds {numbers.step_seconds:g}: no step is that short")
    if as_json:
        document = {"mtbf_seconds": mtbf_seconds, **asdict(cadence)}
        sys.stdout.write(json.dumps(document) + "\n")
    else:
        output().print(plan_table(cadence, mtbf_seconds))


def plan_table(cadence: Cadence, mtbf_seconds: float) -> Table:
    """The plan for people."""
    table = Table("", Column("", justify="right"), "", show_header=False)
    every, seconds = cadence.checkpoint_every, cadence.checkpoint_seconds
    rows = (
        ("snapshot every", _steps(cadence.snapshot_every), f"{cadence.stall_share:.2%} of time"),
        ("checkpoint every", _steps(every), f"{_time(seconds)}: {WHY[cadence.because]}"),
        ("first order (Young)", _time(cadence.young_seconds), "between checkpoints"),
        ("higher order (Daly)", _time(cadence.daly_seconds), "between checkpoints"),
        ("the job fails every", _time(mtbf_seconds), "on average"),
        ("lost by a failure", _time(cadence.memory_lost_seconds), "on average, memory survives"),
        ("", _time(cadence.disk_lost_seconds), "on average, only the disk does"),
        ("goodput", f"{cadence.goodput:.2%}", "of time, if every failure leaves only the disk"),
    )
    for row in rows:
        table.add_row(*row)
    return table


def _require_sense(numbers: Numbers) -> None:
    for field in fields(numbers):
        value = getattr(numbers, field.name)
        least = "above" if field.name in ABOVE_ZERO else "at least"
        flag = f"--{field.name.replace('_', '-')} {value:g}"
        if not math.isfinite(value) or value < 0 or (value == 0 and least == "above"):
            raise MisuseError(f"{flag}: must be a number {least} 0")
    if numbers.most_stall_percent > 100:
        raise MisuseError(f"--most-stall-percent {numbers.most_stall_percent:g}: at most 100")


def _steps(count: int) -> str:
    return f"{count} step" if count == 1 else f"{count} steps"


def _time(seconds: float) -> str:
    for unit, unit_seconds in (("d", DAY_SECONDS), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * unit_seconds:
            return f"{seconds / unit_seconds:.1f} {unit}"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
