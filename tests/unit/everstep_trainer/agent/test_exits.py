"""What the end of a worker's process means."""

import signal
from pathlib import Path

import pytest
from everstep_contract.facts.worker import ExitClass
from everstep_trainer.agent.exits import classify, count_memory_kills


@pytest.mark.parametrize(
    ("code", "number", "kind"),
    [
        (0, None, "finished"),
        (1, None, "application"),
        (None, signal.SIGSEGV, "application"),
        (None, signal.SIGABRT, "application"),
        (None, signal.SIGKILL, "killed"),
        (None, signal.SIGTERM, "killed"),
        (None, signal.SIGBUS, "unknown"),
        (None, None, "unknown"),
    ],
)
def test_an_end_is_classified_by_its_status(
    code: int | None, number: int | None, kind: ExitClass
) -> None:
    assert classify(code, number, out_of_memory=False).classified == kind


def test_a_kill_for_lack_of_memory_is_told_from_another_kill() -> None:
    assert classify(None, signal.SIGKILL, out_of_memory=True).classified == "out_of_memory"


def test_a_crash_is_no_lack_of_memory_though_another_process_was_killed_for_it() -> None:
    assert classify(1, None, out_of_memory=True).classified == "application"


def test_memory_kills_are_read_from_the_containers_events(tmp_path: Path) -> None:
    events = tmp_path / "memory.events"
    events.write_text("low 0\nhigh 3\nmax 12\noom 2\noom_kill 2\n")
    assert count_memory_kills(events) == 2


def test_where_nothing_counts_memory_kills_there_are_none(tmp_path: Path) -> None:
    assert count_memory_kills(tmp_path / "missing") == 0
