"""An undisturbed job while other work keeps every core busy: nobody may be condemned."""

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.report import Figure, figure, parser, show
from everstep_bus.background import background
from everstep_cli.access import quiet_logs
from everstep_cli.drill.board import Board
from everstep_cli.drill.fault import MEMBERS, MIN_MEMBER
from everstep_cli.drill.manifest import Gang
from everstep_cli.drill.processes import Processes
from everstep_cli.drill.run import first_steps
from everstep_cli.drill.stage import Setting, Stage
from everstep_cli.drill.watch import Watch
from everstep_cli.drill.worker_logs import median_step_seconds, read_steps
from everstep_cli.terminal import progress
from everstep_contract.base import Event
from everstep_contract.facts.incident import IncidentOpened
from everstep_contract.facts.job import OrderIssued, VerdictReached
from everstep_contract.facts.member import MemberSuspected

SPIN: Final = "while True: pass"


async def watch_undisturbed(minutes: float, folder: Path) -> tuple[list[Event], float | None]:
    """Everything that was said in that time, and how long a step took."""
    processes = Processes(folder / "logs", f"quiet-{os.getpid()}")
    gang = Gang(members=MEMBERS, min_member=MIN_MEMBER, nproc=1)
    try:
        async with Stage(folder, processes, gang, Setting()) as stage, stage.bus() as bus:
            watch = Watch(bus, Board(progress()))
            async with background(watch.run()):
                await first_steps(stage, watch, gang)
                before = len(watch.events)
                with busy_cores():
                    await asyncio.sleep(60 * minutes)
            steps = read_steps(stage.workers)
            return watch.events[before:], median_step_seconds(steps, until=time.time())
    finally:
        await processes.stop_all()


@contextlib.contextmanager
def busy_cores() -> Iterator[None]:
    """One spinning process a core."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def figures_of(events: list[Event], step_seconds: float | None) -> list[Figure]:
    """Counts that must all be zero, and the pace."""

    def count(name: str, *kinds: type[Event], limit: float | None = 0) -> Figure:
        found = sum(isinstance(event, kinds) for event in events)
        return figure(name, "events", [found], limit=limit)

    return [
        count("suspicions", MemberSuspected, limit=None),
        count("incidents", IncidentOpened),
        count("verdicts", VerdictReached),
        count("generations", OrderIssued),
        figure("step with busy cores", "s", [step_seconds] if step_seconds else []),
    ]


def main() -> int:
    """Watch; 1 when somebody was condemned."""
    flags = parser(__doc__)
    flags.add_argument("--minutes", type=float, default=10.0)
    chosen = flags.parse_args()
    quiet_logs()
    with tempfile.TemporaryDirectory(prefix="everstep-quiet-") as folder:
        found = figures_of(*asyncio.run(watch_undisturbed(chosen.minutes, Path(folder))))
    show("quiet", found, as_json=chosen.json)
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
