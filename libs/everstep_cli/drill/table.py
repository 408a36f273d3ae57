"""The milestone table that a drill ends with, beside the published drill and plain torchrun."""

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Final, Literal

from everstep_contract.record import MilestoneName
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from everstep_cli.drill.document import DrillDocument, Restored, TorchrunResult
from everstep_cli.drill.fault import TORCHRUN_HEAL_SECONDS

PUBLISHED: Final = json.loads(files(__package__).joinpath("published.json").read_text())
"""A published drill's milestones, with their source."""

_Row = tuple[MilestoneName | Literal["chosen", "loaded"], str, str | None]
_ROWS: Final[tuple[_Row, ...]] = (
    ("noticed", "noticed", None),
    ("confirmed", "confirmed", None),
    ("decided", "decided", "noticed_and_judged"),
    ("ordered", "ordered", None),
    ("left_old_group", "left the old group", "re_rendezvous"),
    ("chosen", "chose a state", None),
    ("loaded", "loaded and verified it", None),
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
        unchanged = Text(f"nothing changed, as expected; {_left(document)}")
        return Group(heading, unchanged, *_state(document), ruled)
    published = 0 < document.members_lowest < document.members_before
    notes = [Text(_PUBLISHED_NOTE, "dim")] if published else []
    notes += [Text(_TORCHRUN_NOTE, "dim")] if document.against.torchrun else []
    lines = [_outcome(document), *_state(document), *([ruled] if document.healed else [])]
    return Group(heading, _table(document, published=published), *notes, *lines)


def _table(document: DrillDocument, *, published: bool) -> Table:
    rows = [row for row in _ROWS if row[0] not in ("chosen", "loaded") or _loaded(document)]
    columns = {"Everstep": _ours(document, rows)}
    if document.against.torchrun:
        columns["torchrun, tuned"] = _theirs(document.against.torchrun, rows)
    if published:
        columns["published drill"] = _published(rows)
    table = Table(
        "seconds from the fault", *(Column(heading, justify="right") for heading in columns)
    )
    labels = [*(words for _, words, _ in rows), "steps lost"]
    for row in zip(labels, *columns.values(), strict=True):
        table.add_row(*row)
    return table


def _loaded(document: DrillDocument) -> Restored | None:
    """How the state was loaded, if it was: what a living worker holds is only copied."""
    found = document.restored
    return found if found and found.source in ("memory", "disk") else None


def _ours(document: DrillDocument, rows: Sequence[_Row]) -> list[str]:
    reached = dict[str, float | None](document.milestones_seconds.items())
    if (loaded := _loaded(document)) is not None:
        reached |= {"chosen": loaded.chosen_seconds, "loaded": loaded.loaded_seconds}
    return [*(_seconds(reached[name]) for name, _, _ in rows), str(document.steps_lost)]


def _theirs(result: TorchrunResult, rows: Sequence[_Row]) -> list[str]:
    """Of a run that did not heal only how long it was waited for."""
    first, lost = result.first_new_step_seconds, result.steps_lost
    return [
        *[""] * (len(rows) - 1),
        f"not in {TORCHRUN_HEAL_SECONDS:g} s" if first is None else f"{first:.1f}",
        "-" if lost is None else str(lost),
    ]


def _published(rows: Sequence[_Row]) -> list[str]:
    found = [PUBLISHED["seconds_from_fault"].get(stage) for _, _, stage in rows]
    seconds = ("" if value is None else f"{value:.1f}" for value in found)
    return [*seconds, str(PUBLISHED["steps_lost"])]


def _state(document: DrillDocument) -> list[Text]:
    """What was kept, and gone on with."""
    said = []
    if (loaded := _loaded(document)) is not None:
        name = f" ({loaded.checkpoint})" if loaded.checkpoint else ""
        said.append(f"state from {loaded.source}: step {loaded.step}{name}")
    if document.damaged_checkpoint:
        said.append(f"{document.damaged_checkpoint} was damaged")
    if document.saves_failed:
        said.append(f"{document.saves_failed} saves failed")
    kept = f"{document.checkpoints_committed} checkpoints committed"
    return [Text("; ".join((*said, kept)))] if said else []


def _outcome(document: DrillDocument) -> Text:
    word = Text("healed", "bold green") if document.healed else Text("NOT healed", "bold red")
    kept = ", the other workers' processes "
    kept += "kept" if document.workers_kept else "NOT kept"
    if not document.members_lowest:
        kept = ""
    ratio = f", {document.ratio:g} x faster than torchrun" if document.ratio else ""
    members = f"{document.members_before} -> {document.members_after} members"
    said = f": {members}{kept}{ratio}; {_left(document)}"
    return word.append(said, "default")


def _left(document: DrillDocument) -> str:
    left = document.leftovers
    return f"{left.processes} processes and {left.shared_memory_files} shared files left behind"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
