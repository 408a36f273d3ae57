"""`everstep drill`: its flags, and what it prints where."""

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from everstep_cli.drill.board import Board
from everstep_cli.drill.faults import FAULTS, FaultName
from everstep_cli.drill.table import milestone_table
from everstep_cli.errors import CommandError, MisuseError
from everstep_cli.terminal import progress

T = TypeVar("T")


class Rival(StrEnum):
    """What Everstep can be compared with."""

    torchrun = "torchrun"


def drill(  # noqa: PLR0913  # a command line
    *,
    fault: Annotated[FaultName, typer.Option(help="What is done.")] = FaultName.POWER_OFF,
    against: Annotated[
        Rival | None, typer.Option(help="Do the same to this, in the same run.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Chooses members and moments; another one each time.")
    ] = None,
    nproc: Annotated[int, typer.Option(min=1, max=4, help="Workers of each member.")] = 1,
    keep: Annotated[
        Path | None, typer.Option(help="Keep logs and the bus's store in this new folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Run the whole loop on this machine, hurt it, and show what it did."""
    if against and FAULTS[fault].torchrun is None:
        able = ", ".join(name for name, row in FAULTS.items() if row.torchrun)
        raise MisuseError(f"--against torchrun knows no fault {str(fault)!r}; it knows {able}")
    try:
        from everstep_cli.drill.run import Drill, run_drill  # needs more than other commands do
    except ImportError as error:
        raise CommandError(f"a drill needs the extras services, trainer, local: {error}") from None
    if keep is not None:
        _make(keep)
    chosen = int(time.time()) if seed is None else seed
    console = progress()
    with Board(console) as board:
        board.say(f"drill {fault}, seed {chosen}")
        wanted = Drill(FAULTS[fault], chosen, nproc, against_torchrun=bool(against), keep=keep)
        document, shortfalls = asyncio.run(_until_told(run_drill(wanted, board)))
    console.print(milestone_table(document))
    for shortfall in shortfalls:
        console.print(f"not as expected: {shortfall}", style="red", markup=False)
    if as_json:
        sys.stdout.write(document.model_dump_json() + "\n")
    if not document.succeeded:
        raise typer.Exit(1)


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
