"""What Everstep costs an undisturbed step of the drill's model, against plain DDP on gloo.

Both trainings live in the same eight processes and take their steps in turns, in random order; the
cost is the median of the paired differences.
"""

import sys
from statistics import median
from typing import Final

from bench.report import Figure, figure, parser, show
from support.ranks import RankHouse
from support.trainees import TrainingJob

COST_LIMIT_PERCENT: Final = 2.0
PROGRAM: Final = "bench.overhead_program:measure"

Step = tuple[float, float, float]
"""Seconds, CPU seconds of rank 0, loss."""

Pairs = list[tuple[Step, Step]]
"""Plain, ours."""


def measure(workers: int, pairs: int) -> Pairs:
    """Pairs of steps as rank 0 timed them."""
    with RankHouse() as house:
        job = TrainingJob(house, PROGRAM, workers=workers, pairs=pairs)
        try:
            job.order(list(range(workers)))
            said = [job[0].rank.until("pair", index=index) for index in range(pairs)]
            return [(tuple(pair["plain"]), tuple(pair["ours"])) for pair in said]
        finally:
            job.close()


def figures_of(pairs: Pairs) -> list[Figure]:
    """Cost in milliseconds and in percent of a plain step."""
    plain = [pair[0][0] for pair in pairs]
    extra = [pair[1][0] - pair[0][0] for pair in pairs]
    step = median(plain)
    cpu = [pair[1][1] - pair[0][1] for pair in pairs]
    same = sum(pair[0][2] == pair[1][2] for pair in pairs)
    return [
        figure("plain step", "ms", [seconds * 1e3 for seconds in plain]),
        figure("cost of a step in time", "ms", [seconds * 1e3 for seconds in extra]),
        figure(
            "cost of a step",
            "%",
            [100 * seconds / step for seconds in extra],
            limit=COST_LIMIT_PERCENT,
        ),
        figure(
            "cost of a step in CPU time of one worker", "ms", [seconds * 1e3 for seconds in cpu]
        ),
        figure("same loss to the bit", "share", [same / len(pairs)], limit=1.0, least=True),
    ]


def main() -> int:
    """Measure; 1 when the limit does not hold."""
    flags = parser(__doc__)
    flags.add_argument("--workers", type=int, default=8)
    flags.add_argument("--pairs", type=int, default=300)
    chosen = flags.parse_args()
    found = figures_of(measure(chosen.workers, chosen.pairs))
    show("overhead", found, as_json=chosen.json)
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
