"""The drills as tests: each fault heals as its row of the table says, and leaves nothing."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from everstep_cli.drill.disk import small_disk
from everstep_cli.drill.fault import FaultName, needs_small_disk
from everstep_cli.drill.faults import FAULTS
from everstep_cli.drill.processes import descendants
from everstep_cli.errors import CommandError
from support.polling import eventually

DRILL_SECONDS = 400
QUICK = (FaultName.CRASH, FaultName.POWER_OFF, FaultName.WORKER, FaultName.WORKER_OOM)
SEEDS = tuple(range(1, 1 + int(os.environ.get("DRILL_SEEDS", "1"))))
"""How often the slow tests repeat each fault; ten before a release."""


def drill(fault: FaultName, seed: int, *more: str) -> dict[str, Any]:
    """Run one drill; its document, with what it said where it is not healed."""
    command = [sys.executable, "-m", "everstep_cli", "drill", "--json"]
    command += ["--fault", fault, "--seed", str(seed), *more]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DRILL_SECONDS, check=False
    )
    assert done.stdout.count("\n") == 1, f"not one document: {done.stdout!r} {done.stderr[-3000:]}"
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["healed"], done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    return document


def run_drill(*flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a drill that is not expected to come far."""
    return subprocess.run(
        [sys.executable, "-m", "everstep_cli", "drill", *flags],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        timeout=DRILL_SECONDS / 4,
        check=False,
    )


def check(fault: FaultName, seed: int) -> None:
    """What every row of the table promises."""
    document = drill(fault, seed)
    assert document["steps_lost"] <= FAULTS[fault].most_steps_lost
    assert document["workers_kept"]
    assert document["false_suspicions"] == 0
    assert document["loss_last"] < document["loss_first"]
    assert document["leftovers"] == {"processes": 0, "shared_memory_files": 0}


def require_small_disk(folder: Path) -> None:
    try:
        with small_disk(folder / "disk"):
            pass
    except CommandError as error:
        pytest.skip(str(error))


@pytest.mark.timeout(DRILL_SECONDS)
@pytest.mark.parametrize("fault", QUICK)
def test_a_drill_heals_and_loses_no_more_than_it_may(fault: FaultName) -> None:
    check(fault, seed=7)


@pytest.mark.timeout(DRILL_SECONDS)
def test_a_drill_takes_the_users_own_script() -> None:
    script = Path(__file__).parents[2] / "trainer" / "examples" / "train.py"
    document = drill(FaultName.CRASH, 7, "--script", str(script), "--", "--steps", "100000")
    assert document["steps_lost"] == 0
    assert document["workers_kept"]
    assert document["loss_first"] is not None


@pytest.mark.timeout(DRILL_SECONDS)
def test_a_script_that_fails_at_once_ends_the_drill_with_its_last_words(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('no data')")
    done = run_drill("--script", str(tmp_path / "broken.py"))
    assert done.returncode == 1
    assert "ended (Failed); it said last: " in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(DRILL_SECONDS)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault not in QUICK])
def test_every_fault_heals_and_loses_no_more_than_it_may(
    fault: FaultName, seed: int, tmp_path: Path
) -> None:
    if needs_small_disk(FAULTS[fault]):
        require_small_disk(tmp_path)
    check(fault, seed)


@pytest.mark.timeout(DRILL_SECONDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_an_interrupted_drill_leaves_no_process(
    number: signal.Signals, tmp_path: Path
) -> None:
    workers = tmp_path / "kept" / "workers"
    command = [sys.executable, "-m", "everstep_cli", "drill", "--keep", str(workers.parent)]
    running = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        await eventually(lambda: list(workers.glob("*.jsonl")), within_seconds=DRILL_SECONDS / 2)
        there = descendants(running.pid)
        assert len(there) > 16
        running.send_signal(number)
        assert await running.wait() != 0
        await eventually(lambda: not [pid for pid in there if Path(f"/proc/{pid}").exists()])
    finally:
        if running.returncode is None:
            running.kill()


@pytest.mark.timeout(DRILL_SECONDS)
def test_a_service_that_dies_at_its_start_ends_the_drill_with_its_last_words(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "everstep_rescaler"
    broken.mkdir()
    (broken / "__init__.py").touch()
    (broken / "__main__.py").write_text("raise SystemExit('it is broken')")
    done = run_drill(PYTHONPATH=os.pathsep.join([str(tmp_path), *sys.path]))
    assert done.returncode == 1
    assert "everstep: rescaler ended with status 1: it is broken" in done.stderr
