"""How often to snapshot and to checkpoint: pure, from what was measured.

Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974.
Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future
Generation Computer Systems 22(3), 2006: his formula 37 and his complete cost function, formula 20.
"""

import math
from dataclasses import dataclass
from typing import Final, Literal

DAY_SECONDS: Final = 86_400.0
MEMBER_MTBF_SECONDS: Final = 150 * DAY_SECONDS
"""Of a machine with eight GPUs, where nobody has measured: 6.5 failures in 1000 days on Meta's
RSC-1 (Kokolis et al., "Revisiting reliability in large-scale machine learning research clusters",
HPCA 2025)."""
MOST_STALL_SHARE: Final = 0.01
"""Share of training time that snapshots may cost."""
LONGEST_SECONDS: Final = 3600.0
"""Between two checkpoints, unless writing one takes longer: not all that ends a job is in its
MTBF. People stop jobs as well."""
MOST_STEPS: Final = 1_000_000
"""Between two snapshots or checkpoints, where seconds would ask for more, or for no end."""
_ENDLESS_SECONDS: Final = 1e12
"""Longer than anything runs: infinity, with which one can reckon."""
_LEAST_SHARE: Final = 1e-9
_LEAST_SECONDS: Final = 1e-9
"""No step is shorter: the clock did not move."""
_MOST_EXPONENT: Final = 700.0
"""`math.exp` overflows a little above; by then nothing gets done anyway."""

Because = Literal["optimum", "snapshots", "flush", "longest"]
"""What decided the checkpoint interval. optimum: Daly's · snapshots: none comes sooner · flush:
writing takes that long · longest: `LONGEST_SECONDS`, and the optimum is longer."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a job has measured of itself, in seconds.

    Attributes:
        step_seconds: One training step without a snapshot.
        stall_seconds: How long training stands still for one snapshot.
        flush_seconds: From the end of a snapshot until all its shards are durable.
        mtbf_seconds: Mean time between failures of the whole job; infinite if it never fails.
        restart_seconds: From a failure until the state is loaded and the next step begins.
    """

    step_seconds: float
    stall_seconds: float
    flush_seconds: float
    mtbf_seconds: float
    restart_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often, in steps, and what is to be expected of it.

    Attributes:
        snapshot_every: Steps between two snapshots in memory.
        checkpoint_every: Steps between two durable checkpoints; a multiple of ``snapshot_every``.
        checkpoint_seconds: Training time in ``checkpoint_every`` steps, without stalls.
        because: What decided ``checkpoint_every``.
        young_seconds: The first order optimum, before rounding and bounds.
        daly_seconds: The higher order optimum, before rounding and bounds.
        stall_share: Share of the time that snapshots cost.
        memory_lost_seconds: Training expected to be repeated after a failure that leaves memory.
        disk_lost_seconds: The same after one that leaves only the disk.
        goodput: Share of the time that is new training if every failure leaves only the disk.
    """

    snapshot_every: int
    checkpoint_every: int
    checkpoint_seconds: float
    because: Because
    young_seconds: float
    daly_seconds: float
    stall_share: float
    memory_lost_seconds: float
    disk_lost_seconds: float
    goodput: float


def job_mtbf_seconds(member_mtbf_seconds: float, members: int) -> float:
    """Mean time between failures of a job that fails with any of its ``members``."""
    return member_mtbf_seconds / max(1, members)


def young_seconds(stall_seconds: float, mtbf_seconds: float) -> float:
    """Training between two checkpoints by Young's first order."""
    return math.sqrt(2 * stall_seconds * mtbf_seconds) if stall_seconds else 0.0


def daly_seconds(stall_seconds: float, mtbf_seconds: float) -> float:
    """Training between two checkpoints by Daly's higher order; positive numbers."""
    if stall_seconds >= 2 * mtbf_seconds:
        return mtbf_seconds
    ratio = stall_seconds / (2 * mtbf_seconds)
    series = 1 + math.sqrt(ratio) / 3 + ratio / 9
    return max(0.0, young_seconds(stall_seconds, mtbf_seconds) * series - stall_seconds)


def goodput(interval_seconds: float, measured: Measured, *, stalls: int = 1) -> float:
    """Share of the time that is new training, with a checkpoint every ``interval_seconds`` of it.

    Daly's complete cost: failures come at random, also while a lost interval is repeated. What was
    trained while a checkpoint was being written is lost with it, as if the restart took longer.

    Args:
        interval_seconds: Training between two checkpoints, above zero.
        measured: Finite numbers, not below zero.
        stalls: Snapshots in an interval.
    """
    if not measured.mtbf_seconds:
        return 0.0
    cycle = (interval_seconds + stalls * measured.stall_seconds) / measured.mtbf_seconds
    again = (measured.restart_seconds + measured.flush_seconds) / measured.mtbf_seconds
    if cycle + again > _MOST_EXPONENT:
        return 0.0
    return interval_seconds / (measured.mtbf_seconds * math.exp(again) * math.expm1(cycle))


def plan(measured: Measured, *, most_stall_share: float = MOST_STALL_SHARE) -> Cadence | None:
    """The cadence for a job. Never raises: negative numbers and NaN count as zero.

    Snapshots come as often as ``most_stall_share``, above 0, allows. A checkpoint is one of them,
    written: its price is the stall, although the snapshot is taken anyway, because storage is
    shared and its load has no other price here.

    Returns:
        None while no step has been measured: there is nothing to plan by.
    """
    known = _tame(measured)
    if known.step_seconds < _LEAST_SECONDS:
        return None
    apart_seconds = known.stall_seconds * (1 / max(_LEAST_SHARE, most_stall_share) - 1)
    return _with_checkpoints(_steps(apart_seconds, known.step_seconds), known)


def _with_checkpoints(snapshot_every: int, known: Measured) -> Cadence:
    optimum_seconds = daly_seconds(known.stall_seconds, known.mtbf_seconds)
    bounds: dict[Because, float] = {
        "snapshots": snapshot_every * known.step_seconds,
        "flush": known.flush_seconds,
        "longest" if optimum_seconds > LONGEST_SECONDS else "optimum": min(
            optimum_seconds, LONGEST_SECONDS
        ),
    }
    because = max(bounds, key=lambda name: bounds[name])
    snapshots = math.ceil(_steps(bounds[because], known.step_seconds) / snapshot_every)
    seconds = snapshots * snapshot_every * known.step_seconds
    stalled_seconds = snapshots * known.stall_seconds
    return Cadence(
        snapshot_every=snapshot_every,
        checkpoint_every=snapshots * snapshot_every,
        checkpoint_seconds=seconds,
        because=because,
        young_seconds=young_seconds(known.stall_seconds, known.mtbf_seconds),
        daly_seconds=optimum_seconds,
        stall_share=stalled_seconds / (seconds + stalled_seconds),
        memory_lost_seconds=snapshot_every * known.step_seconds / 2,
        disk_lost_seconds=seconds / 2 + known.flush_seconds,
        goodput=goodput(seconds, known, stalls=snapshots),
    )


def _steps(seconds: float, step_seconds: float) -> int:
    """As many whole steps as cover ``seconds``, at least one and at most `MOST_STEPS`."""
    return max(1, math.ceil(min(seconds / step_seconds, MOST_STEPS)))


def _tame(measured: Measured) -> Measured:
    return Measured(
        *(
            min(value, _ENDLESS_SECONDS) if value > 0 else 0.0
            for value in (
                measured.step_seconds,
                measured.stall_seconds,
                measured.flush_seconds,
                measured.mtbf_seconds,
                measured.restart_seconds,
            )
        )
    )
