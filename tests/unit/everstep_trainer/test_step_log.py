"""What workers write down of their steps."""

import json
import os
from pathlib import Path

import pytest
from everstep_trainer.step_log import STEP_LOG_VARIABLE, StepLog


def test_without_a_folder_nothing_is_written() -> None:
    assert StepLog.wanted({}) is None
    assert StepLog.wanted({STEP_LOG_VARIABLE: ""}) is None


def test_each_event_is_a_line_in_the_workers_own_file(tmp_path: Path) -> None:
    log = StepLog.wanted({STEP_LOG_VARIABLE: str(tmp_path / "new" / "folder")})
    assert log is not None
    log.write("step", step=1, loss=None)
    log.write("step", step=2, loss=0.5)
    (path,) = (tmp_path / "new" / "folder").iterdir()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(row["step"], row["loss"]) for row in rows] == [(1, None), (2, 0.5)]


def test_a_full_disk_ends_no_step_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / f"worker-{os.getpid()}.jsonl").symlink_to("/dev/full")
    log = StepLog(tmp_path)
    log.write("step", step=1)
    log.write("step", step=2)
    (told,) = caplog.messages
    assert str(tmp_path) in told
    assert "No space left" in told


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        StepLog.wanted({STEP_LOG_VARIABLE: str(tmp_path / "file")})
