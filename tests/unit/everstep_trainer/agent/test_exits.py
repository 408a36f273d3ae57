"""What the end of a worker's process means."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from everstep_contract.facts.worker import ExitClass
from everstep_trainer.agent.exits import classify, count_memory_kills, failure_of_zombie


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


@pytest.mark.parametrize(
    ("ending", "told"),
    [
        ("os._exit(7)", (7, None)),
        ("os.kill(os.getpid(), 9)", (None, 9)),
        ("os._exit(0)", (None, None)),
    ],
)
def test_the_kernel_tells_of_a_failure_that_nobody_has_reaped_yet(
    ending: str, told: tuple[int | None, int | None]
) -> None:
    with subprocess.Popen([sys.executable, "-c", f"import os; {ending}"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert failure_of_zombie(process.pid) == told
        process.wait()
        assert failure_of_zombie(process.pid) == (None, None)


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
