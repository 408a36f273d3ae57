"""Processes of a drill: started, found and ended, whatever they do."""

import sys
from pathlib import Path

from everstep_cli.drill.processes import (
    Processes,
    Program,
    descendants,
    left_behind,
    log_tail,
    marked,
)
from everstep_cli.waiting import seen

BOUND_SECONDS = 20.0
STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""
RUNAWAY = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""


async def test_a_stubborn_process_and_its_children_end_with_the_drill(tmp_path: Path) -> None:
    processes = Processes(tmp_path, mark="stubborn")
    pid = await processes.start(Program("stubborn", (sys.executable, "-c", STUBBORN), {}))
    child = await seen(lambda: log_tail(tmp_path, "stubborn") or None, within_seconds=BOUND_SECONDS)
    assert descendants(pid) == {int(child or 0)}
    await processes.stop_all()
    assert await left_behind("stubborn") == frozenset()


async def test_a_process_that_ran_away_is_found_by_its_mark_and_ended(tmp_path: Path) -> None:
    processes = Processes(tmp_path, mark="runaway")
    await processes.start(Program("runaway", (sys.executable, "-c", RUNAWAY), {}))
    await seen(lambda: processes.ended("runaway") is not None or None, within_seconds=BOUND_SECONDS)
    await processes.stop_all()
    assert len(await left_behind("runaway")) == 1
    assert await seen(lambda: not marked("runaway") or None, within_seconds=BOUND_SECONDS)


async def test_a_killed_program_can_be_started_again_under_its_name(tmp_path: Path) -> None:
    processes = Processes(tmp_path, mark="again")
    sleeper = Program("sleeper", (sys.executable, "-c", "import time; time.sleep(600)"), {})
    first = await processes.start(sleeper)
    await processes.kill("sleeper")
    assert await processes.start(sleeper) != first
    await processes.stop_all()
    assert not marked("again")
