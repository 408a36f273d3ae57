"""The table a drill ends with."""

import io

from everstep_cli.drill.document import (
    Against,
    DrillDocument,
    Leftovers,
    Restored,
    TorchrunResult,
)
from everstep_cli.drill.table import milestone_table
from everstep_cli.timeline import MILESTONES
from rich.console import Console

DOCUMENT = DrillDocument(
    fault="store-host",
    target="worker-0",
    healed=True,
    expected_verdict="shrink",
    verdicts=("shrink",),
    members_before=8,
    members_lowest=7,
    members_after=7,
    min_member=6,
    generation_before=1,
    generation_after=2,
    milestones_seconds=dict.fromkeys(MILESTONES) | {"first_new_step": 0.3456},
    incidents=(),
    steps_lost=0,
    workers_kept=True,
    median_step_seconds=0.2,
    false_suspicions=0,
    loss_first=5.0,
    loss_last=3.0,
    against=Against(
        torchrun=TorchrunResult(healed=False, first_new_step_seconds=None, steps_lost=None)
    ),
    ratio=None,
    leftovers=Leftovers(processes=0, shared_memory_files=0),
)


def printed(document: DrillDocument) -> str:
    """The table as plain text."""
    console = Console(width=100, file=io.StringIO(), record=True)
    console.print(milestone_table(document))
    return console.export_text()


def test_a_torchrun_that_did_not_heal_in_time_is_a_result() -> None:
    assert "not in 60 s" in printed(DOCUMENT)


def test_the_published_drill_stands_only_beside_a_lost_member() -> None:
    kept = DOCUMENT.model_copy(update={"members_lowest": 8, "members_after": 8})
    assert "published drill: 64 H100" in printed(DOCUMENT)
    assert "published" not in printed(kept)


def test_where_nothing_was_to_change_no_empty_table_is_shown() -> None:
    same = {"generation_after": 1, "verdicts": ()}
    shown = printed(DOCUMENT.model_copy(update=same))
    assert "nothing changed, as expected" in shown
    assert "as expected: no verdict" in shown
    assert "first new step" not in shown


def test_milestones_stand_beside_the_published_ones() -> None:
    assert any("0.346" in row and "88.6" in row for row in printed(DOCUMENT).splitlines())


def test_what_was_left_behind_is_said_and_fails_the_drill() -> None:
    document = DOCUMENT.model_copy(
        update={"leftovers": Leftovers(processes=2, shared_memory_files=0)}
    )
    assert "2 processes" in printed(document)
    assert not document.succeeded


def test_the_way_to_a_state_is_shown_where_it_was_loaded() -> None:
    restored = Restored(
        source="disk", checkpoint="g1-s40", step=40, chosen_seconds=1.5, loaded_seconds=1.75
    )
    shown = printed(DOCUMENT.model_copy(update={"restored": restored, "steps_lost": 7}))
    assert "state from disk: step 40 (g1-s40)" in shown
    assert any("loaded and verified it" in row and "1.750" in row for row in shown.splitlines())


def test_a_state_that_a_living_worker_held_was_not_loaded() -> None:
    living = Restored(
        source="living", checkpoint="", step=40, chosen_seconds=1.5, loaded_seconds=1.75
    )
    assert "loaded" not in printed(DOCUMENT.model_copy(update={"restored": living}))


def test_saves_that_failed_are_told_though_nothing_changed() -> None:
    update = {"generation_after": 1, "verdicts": (), "saves_failed": 3}
    assert "3 saves failed; 2 checkpoints committed" in printed(
        DOCUMENT.model_copy(update={**update, "checkpoints_committed": 2})
    )
