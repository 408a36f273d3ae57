"""What checkpoints cost: the stall, the writing, the loading, the memory; about 1 GiB of state."""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from bench import checkpoint_flushing as flushing
from bench import checkpoint_loading as loading
from bench.checkpoint_memory import memory_times_shard, newest, restore_from_memory
from bench.checkpoint_stall import Ours
from bench.checkpoint_stall import measure as measure_stall
from bench.checkpoint_state import GIB, Cost, make_replica
from bench.report import Figure, figure, parser, show
from everstep_trainer.library.replica import Replica

STALL_LIMIT: Final = 1.25
"""Times a bare copy of the same tensors."""


MEMORY_LIMIT: Final = 2.05
RESTORE_COPIES: Final = 3.0
RESTORE_SECONDS_PER_GIB: Final = 0.2


def stall_figures(costs: dict[str, list[Cost]]) -> list[Figure]:
    """The stall of each saver, and ours beside a bare copy's of the same turn."""
    bare = costs["bare copy"]
    ratios = [
        ours.cpu_seconds / copy.cpu_seconds
        for ours, copy in zip(costs["everstep"], bare, strict=True)
    ]
    found = [figure("stall, times a bare copy's CPU time", "x", ratios, limit=STALL_LIMIT)]
    unit = median(copy.seconds for copy in bare)
    for name, each in costs.items():
        found.append(figure(f"stall of {name}", "ms", [cost.seconds * 1e3 for cost in each]))
        found.append(
            figure(f"stall of {name}, times a bare copy", "x", [c.seconds / unit for c in each])
        )
    return found


def memory_figures(replica: Replica, samples: int) -> list[Figure]:
    """What a row of snapshots costs, the way back, and the room."""
    ours = Ours(replica)
    faults = [ours.save(sample).page_faults for sample in range(1, samples + 3)][2:]
    restored = restore_from_memory(ours, replica, samples)
    gib = newest(ours)[2].total_bytes / GIB
    allowed = [RESTORE_COPIES * copy + RESTORE_SECONDS_PER_GIB * gib for copy, _ in restored]
    return [
        figure("state", "GiB", [gib]),
        figure("page faults in a snapshot, one after the other", "", faults, limit=0),
        figure("restore from memory", "s", [seconds for _, seconds in restored]),
        figure(
            "restore from memory, times 3 copies and 0.2 s a GiB",
            "x",
            [seconds / most for (_, seconds), most in zip(restored, allowed, strict=True)],
            limit=1.0,
        ),
        figure("memory, times a shard", "x", [memory_times_shard(ours)], limit=MEMORY_LIMIT),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 1 when a limit does not hold."""
    flags = parser(__doc__)
    flags.add_argument("--samples", type=int, default=7)
    flags.add_argument("--scale", type=float, default=1.0, help="of the layers: 1 is 1 GiB")
    flags.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    chosen = flags.parse_args(arguments)
    replica = make_replica(chosen.scale)
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        below, total_bytes = Path(folder), int(chosen.scale * GIB)
        found = memory_figures(replica, chosen.samples)
        found += asyncio.run(flushing.measure(below, chosen.samples, total_bytes))
        saved, manifest = loading.saved(below / "loading", total_bytes)
        runs = loading.measure(saved, manifest, chosen.samples)
        found += loading.figures_of(runs, manifest.total_bytes)
        found += stall_figures(measure_stall(replica, Path(folder), chosen.samples))
    show("checkpoint", found, as_json=chosen.json)
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
