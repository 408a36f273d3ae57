"""Every row of the drill's table with different seeds: no more may be lost than the row says."""

import sys
from pathlib import Path
from typing import Any

from bench.drills import drill
from bench.report import Figure, figure, parser, show
from everstep_cli.drill.fault import FaultName
from everstep_cli.drill.faults import FAULTS


def figures_of(fault: str, documents: list[dict[str, Any]]) -> list[Figure]:
    """What must hold in each single run, so the worst run counts."""
    healed = [document for document in documents if document["healed"]]

    def every(name: str, count: int) -> Figure:
        return figure(f"{fault}: {name}", "share", [count / len(documents)], limit=1.0, least=True)

    lost = [document["steps_lost"] for document in healed]
    new_steps = [document["milestones_seconds"]["first_new_step"] for document in healed]
    return [
        every("healed", len(healed)),
        every("workers kept", sum(document["workers_kept"] for document in healed)),
        figure(
            f"{fault}: most steps lost",
            "steps",
            [max(lost)] if lost else [],
            limit=FAULTS[FaultName(fault)].most_steps_lost,
        ),
        figure(f"{fault}: first new step", "s", [at for at in new_steps if at is not None]),
    ]


def main() -> int:
    """Run each fault so many times; 1 when one run of one of them did not hold."""
    flags = parser(__doc__)
    flags.add_argument("--runs", type=int, default=10)
    flags.add_argument("--first-seed", type=int, default=0)
    flags.add_argument("--keep", type=Path, help="folder for all of a drill that did not heal")
    flags.add_argument("--fault", choices=list(FAULTS), action="append", help="only these")
    chosen = flags.parse_args()
    found: list[Figure] = []
    for fault in chosen.fault or FAULTS:
        seeds = range(chosen.first_seed, chosen.first_seed + chosen.runs)
        drills = [drill(fault, seed, against=False, keep=chosen.keep) for seed in seeds]
        found += figures_of(fault, drills)
    show("rows", found, as_json=chosen.json)
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
