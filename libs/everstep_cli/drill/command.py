"""`everstep drill`: what it prints where."""

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import typer

from everstep_cli.access import quiet_logs
from everstep_cli.drill.board import Board
from everstep_cli.drill.document import DrillDocument
from everstep_cli.drill.fault import FaultName
from everstep_cli.drill.faults import FAULTS
from everstep_cli.drill.table import milestone_table
from everstep_cli.errors import CommandError, MisuseError
from everstep_cli.terminal import progress

T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for; without a seed another one each time.

    ``script``: with its arguments; empty for the drill's own.
    """

    fault: FaultName
    seed: int | None
    nproc: int
    keep: Path | None
    against_torchrun: bool
    script: tuple[str, ...] = ()


def drill_and_show(wanted: Wanted, *, verbose: bool, as_json: bool) -> None:
    """Run a drill and print what it found.

    Raises:
        MisuseError: It cannot be meant.
        CommandError: It could not be carried out.
        Exit: It is not as expected, and what is not was printed.
    """
    fault = FAULTS[wanted.fault]
    if wanted.against_torchrun and wanted.script:
        raise MisuseError("--against torchrun trains the drill's own model: leave --script out")
    if wanted.against_torchrun and fault.torchrun is None:
        able = ", ".join(name for name, row in FAULTS.items() if row.torchrun)
        raise MisuseError(
            f"--against torchrun knows no fault {fault.name.value!r}; it knows {able}"
        )
    try:
        from everstep_cli.drill.run import Drill, run_drill  # needs more than other commands do
    except ImportError as error:
        raise CommandError(f"a drill needs the extras services, trainer, local: {error}") from None
    if wanted.keep is not None:
        _make(wanted.keep)
    quiet_logs()
    seed = int(time.time()) if wanted.seed is None else wanted.seed
    console = progress()
    with Board(console, verbose=verbose) as board:
        board.say(f"drill {fault.name}, seed {seed}")
        drill = Drill(
            fault, seed, wanted.nproc, wanted.against_torchrun, wanted.keep, wanted.script
        )
        document, shortfalls = asyncio.run(_until_told(run_drill(drill, board)))
    console.print(milestone_table(document))
    for shortfall in shortfalls:
        console.print(f"NOT as expected: {shortfall}", style="red", markup=False)
    console.print(_where_to_look(document, wanted.keep), markup=False, soft_wrap=True)
    if as_json:
        sys.stdout.write(document.model_dump_json() + "\n")
    if not document.succeeded:
        raise typer.Exit(1)


def _where_to_look(document: DrillDocument, keep: Path | None) -> str:
    if keep is None:
        return "keep it with --keep DIR to look closer"
    if not document.incidents:
        return f"see why: everstep events --store {keep}"
    return f"see why: everstep incident {document.incidents[0].id} --store {keep}"


def _make(keep: Path) -> None:
    try:
        keep.mkdir(parents=True)
    except OSError as error:
        raise MisuseError(f"--keep {keep}: {error.strerror}") from None


async def _until_told(work: Coroutine[Any, Any, T]) -> T:
    """Let SIGTERM end ``work`` as Ctrl-C does: with everything taken down."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        raise CommandError("interrupted; everything was taken down") from None
