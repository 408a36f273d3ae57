"""The drill's two scripts: the same training, with Everstep and for plain torchrun."""

import json
import signal
from pathlib import Path
from typing import Any

from support.ranks import RankHouse
from support.trainees import TrainingJob

DRILL = "support.trainee_programs:drill"
PLAIN = "support.trainee_programs:plain_drill"


def rows(folder: Path, event: str) -> list[dict[str, Any]]:
    """What the workers themselves logged, oldest first."""
    lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted(
        (row for row in map(json.loads, lines) if row["event"] == event), key=lambda row: row["t"]
    )


def test_the_drills_model_learns_visibly_within_forty_steps(
    house: RankHouse, tmp_path: Path
) -> None:
    (rank,) = house.start(DRILL, [{"directory": str(tmp_path), "steps": 40}])
    rank.until("ended")
    losses = [row["loss"] for row in rows(tmp_path, "step")]
    assert sum(losses[:5]) / 5 > 4.5
    assert sum(losses[-5:]) / 5 < 3.6


def test_a_member_of_the_drill_dies_and_its_log_shows_no_step_lost(
    house: RankHouse, tmp_path: Path
) -> None:
    job = TrainingJob(house, DRILL, workers=3, directory=str(tmp_path), steps=1000)
    job.order([0, 1, 2])
    job.until_told("first_step", [0, 1, 2])
    job[2].rank.signal(signal.SIGKILL)
    job.order([0, 1])
    job.until_told("first_step", [0, 1], generation=2)
    steps = rows(tmp_path, "step")
    dead = job[2].rank.pid
    reached = max(row["step"] for row in steps if row["generation"] == 1 and row["pid"] != dead)
    (formed,) = {row["step"] for row in rows(tmp_path, "formed") if row["generation"] == 2}
    assert formed >= reached
    assert min(row["step"] for row in steps if row["generation"] == 2) == formed + 1


def test_the_plain_script_resumes_from_its_newest_checkpoint(
    house: RankHouse, tmp_path: Path
) -> None:
    for steps in (21, 22):
        (rank,) = house.start(PLAIN, [{"directory": str(tmp_path), "steps": steps}])
        rank.until("ended")
    assert [row["step"] for row in rows(tmp_path, "formed")] == [0, 20]
    assert [row["step"] for row in rows(tmp_path, "step")][-2:] == [21, 22]
