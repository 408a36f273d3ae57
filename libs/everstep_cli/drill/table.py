"""The milestone table that a drill ends with, beside the published drill and plain torchrun."""

import json
from importlib.resources import files
from typing import Final

from everstep_contract.record import MilestoneName
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from everstep_cli.drill.document import DrillDocument

PUBLISHED: Final = json.loads(files(__package__).joinpath("published.json").read_text())
"""A published drill's milestones, with their source."""

_ROWS: Final[tuple[tuple[MilestoneName, str, str | None], ...]] = (
    ("noticed", "noticed", None),
    ("confirmed", "confirmed", None),
    ("decided", "decided", "noticed_and_judged"),
    ("ordered", "ordered", None),
    ("left_old_group", "left the old group", "re_rendezvous"),
    ("agreed", "agreed on the new one", "communication_rebuilt"),
    ("first_new_step", "first new step", "full_speed"),
)
"""Our milestone, its words, and the published drill's stage that ends at the same point."""


def milestone_table(document: DrillDocument) -> RenderableType:
    """The table, and a line below it with what was lost."""
    table = Table(title=f"{document.fault}: {document.target}", title_justify="left")
    table.add_column("seconds from the fault")
    table.add_column("Everstep", justify="right")
    theirs = document.against.torchrun
    if theirs:
        table.add_column("torchrun, tuned", justify="right")
    table.add_column("published drill", justify="right")
    for milestone, words, stage in _ROWS:
        cells = [words, _seconds(document.milestones_seconds[milestone])]
        if theirs:
            last = milestone == "first_new_step"
            cells.append(_torchrun(theirs.first_new_step_seconds) if last else "")
        published = PUBLISHED["seconds_from_fault"].get(stage)
        table.add_row(*cells, f"{published:.1f}" if published else "")
    lost = ["steps lost", str(document.steps_lost)]
    if theirs:
        lost.append("-" if theirs.steps_lost is None else str(theirs.steps_lost))
    table.add_row(*lost, str(PUBLISHED["steps_lost"]))
    return Group(table, _outcome(document))


def _outcome(document: DrillDocument) -> Text:
    word = Text("healed", "bold green") if document.healed else Text("NOT healed", "bold red")
    kept = "workers' processes kept" if document.workers_kept else "workers' processes NOT kept"
    ratio = f", {document.ratio:g} x faster than torchrun" if document.ratio else ""
    members = f"{document.members_before} -> {document.members_after} members"
    left = document.leftovers
    tail = f"{left.processes} processes and {left.shared_memory_files} shared files left behind"
    return word.append(f": {members}, {kept}{ratio}; {tail}", "default")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _torchrun(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"
