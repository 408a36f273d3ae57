"""The milestone table that a drill ends with, beside the published drill and plain torchrun."""

import json
from importlib.resources import files
from typing import Final

from everstep_contract.record import MilestoneName
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from everstep_cli.drill.document import DrillDocument, TorchrunResult
from everstep_cli.drill.faults import TORCHRUN_HEAL_SECONDS

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


_PUBLISHED_NOTE: Final = "published drill: 64 H100 in 8 nodes, one node powered off, 8 -> 7"
_TORCHRUN_NOTE: Final = "torchrun, tuned: its timers as short as they go"


def milestone_table(document: DrillDocument) -> RenderableType:
    """The table, and lines below it with what was lost and what the columns are.

    The published drill lost a member: it stands beside drills that lose one too.
    """
    heading = Text(f"{document.fault}: {document.target}", "italic")
    ruled = Text(f"as expected: {', '.join(document.verdicts) or 'no verdict'}", "green")
    if document.healed and document.generation_after == document.generation_before:
        return Group(heading, Text(f"nothing changed, as expected; {_left(document)}"), ruled)
    published = document.members_lowest < document.members_before
    notes = [Text(_PUBLISHED_NOTE, "dim")] if published else []
    notes += [Text(_TORCHRUN_NOTE, "dim")] if document.against.torchrun else []
    lines = [_outcome(document), *([ruled] if document.healed else [])]
    return Group(heading, _table(document, published=published), *notes, *lines)


def _table(document: DrillDocument, *, published: bool) -> Table:
    columns = {"Everstep": _ours(document)}
    if document.against.torchrun:
        columns["torchrun, tuned"] = _theirs(document.against.torchrun)
    if published:
        columns["published drill"] = _published()
    table = Table(
        "seconds from the fault", *(Column(heading, justify="right") for heading in columns)
    )
    labels = [*(words for _, words, _ in _ROWS), "steps lost"]
    for row in zip(labels, *columns.values(), strict=True):
        table.add_row(*row)
    return table


def _ours(document: DrillDocument) -> list[str]:
    found = [document.milestones_seconds[milestone] for milestone, _, _ in _ROWS]
    return [*map(_seconds, found), str(document.steps_lost)]


def _theirs(result: TorchrunResult) -> list[str]:
    """Of a run that did not heal only how long it was waited for."""
    first, lost = result.first_new_step_seconds, result.steps_lost
    return [
        *[""] * (len(_ROWS) - 1),
        f"not in {TORCHRUN_HEAL_SECONDS:g} s" if first is None else f"{first:.1f}",
        "-" if lost is None else str(lost),
    ]


def _published() -> list[str]:
    found = [PUBLISHED["seconds_from_fault"].get(stage) for _, _, stage in _ROWS]
    seconds = ("" if value is None else f"{value:.1f}" for value in found)
    return [*seconds, str(PUBLISHED["steps_lost"])]


def _outcome(document: DrillDocument) -> Text:
    word = Text("healed", "bold green") if document.healed else Text("NOT healed", "bold red")
    kept = "kept" if document.workers_kept else "NOT kept"
    ratio = f", {document.ratio:g} x faster than torchrun" if document.ratio else ""
    members = f"{document.members_before} -> {document.members_after} members"
    said = f": {members}, the other workers' processes {kept}{ratio}; {_left(document)}"
    return word.append(said, "default")


def _left(document: DrillDocument) -> str:
    left = document.leftovers
    return f"{left.processes} processes and {left.shared_memory_files} shared files left behind"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
