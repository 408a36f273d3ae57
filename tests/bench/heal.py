"""How fast the loop heals: each milestone of a drill, and plain torchrun in the same run."""

import sys
from typing import Any, Final

from bench.drills import drill
from bench.report import Figure, figure, parser, show

FAULTS: Final = ("crash", "freeze", "power-off")
NOTICED_LIMIT_SECONDS: Final = {"crash": 0.05, "freeze": 1.0, "power-off": 1.0}
DECIDED_LIMIT_SECONDS: Final = 0.02
AGREED_LIMIT_SECONDS: Final = 0.5
RATIO_LEAST: Final = {"crash": 30.0, "power-off": 15.0}


def stage_seconds(document: dict[str, Any], first: str, last: str) -> float | None:
    """From one milestone to another; None unless both were reached."""
    found = document["milestones_seconds"]
    if found[first] is None or found[last] is None:
        return None
    return float(found[last] - found[first])


def figures_of(fault: str, documents: list[dict[str, Any]]) -> list[Figure]:
    """The figures of all drills of one fault."""
    healed = [document for document in documents if document["healed"]]

    def milestone(name: str) -> list[float]:
        return [d["milestones_seconds"][name] for d in healed if d["milestones_seconds"][name]]

    def stage(first: str, last: str) -> list[float]:
        found = (stage_seconds(document, first, last) for document in healed)
        return [seconds for seconds in found if seconds is not None]

    torchrun = [d["against"]["torchrun"] or {} for d in healed]
    theirs = [t["first_new_step_seconds"] for t in torchrun if t.get("first_new_step_seconds")]
    return [
        figure(f"{fault}: healed", "share", [len(healed) / len(documents)], limit=1.0, least=True),
        figure(f"{fault}: steps lost", "steps", [d["steps_lost"] for d in healed], limit=0),
        figure(f"{fault}: noticed", "s", milestone("noticed"), limit=NOTICED_LIMIT_SECONDS[fault]),
        figure(
            f"{fault}: decided after confirmed",
            "s",
            stage("confirmed", "decided"),
            limit=DECIDED_LIMIT_SECONDS,
        ),
        figure(
            f"{fault}: agreed after ordered",
            "s",
            stage("ordered", "agreed"),
            limit=AGREED_LIMIT_SECONDS,
        ),
        figure(f"{fault}: first new step", "s", milestone("first_new_step")),
        figure(f"{fault}: torchrun's first new step", "s", theirs),
        figure(
            f"{fault}: faster than torchrun",
            "x",
            [d["ratio"] for d in healed if d["ratio"]],
            limit=RATIO_LEAST.get(fault),
            least=True,
        ),
        figure(f"{fault}: step", "s", [d["median_step_seconds"] for d in healed]),
    ]


def main() -> int:
    """Run drills of each fault; 1 when a limit does not hold."""
    flags = parser(__doc__)
    flags.add_argument("--runs", type=int, default=5)
    flags.add_argument("--fault", choices=FAULTS, action="append", help="only these")
    chosen = flags.parse_args()
    found: list[Figure] = []
    for fault in chosen.fault or FAULTS:
        against = fault in RATIO_LEAST
        documents = [drill(fault, seed, against=against) for seed in range(chosen.runs)]
        found += figures_of(fault, documents)
    show("heal", found, as_json=chosen.json)
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
