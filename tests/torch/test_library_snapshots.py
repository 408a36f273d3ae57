"""Snapshots in memory that outlive every worker: killed, started anew, and nothing has changed."""

from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from everstep_trainer.page import FOR_EVER_NS
from support.ranks import RankHouse
from support.trainees import TrainingJob

TRAIN = "support.trainee_programs:train"
TOTAL = 12


def undisturbed(house: RankHouse, workers: int, **settings: int) -> set[str]:
    job = TrainingJob(house, TRAIN, workers=workers, total=TOTAL, **settings)
    job.order(list(range(workers)))
    return {said["digest"] for said in job.until("ended", list(range(workers)))}


@pytest.mark.parametrize("nproc", [1, 2])
def test_if_all_workers_die_at_once_the_state_comes_from_memory(
    house: RankHouse, nproc: int
) -> None:
    numbers = [0, 1]
    job = TrainingJob(house, TRAIN, workers=2, nproc=nproc, total=TOTAL, snapshot_every=3)
    job.order(numbers)
    job.until("step", numbers, step=8)
    for number in numbers:
        job[number].rank.signal(SIGKILL)
    for number in numbers:
        job.start(number, seed=99)
    job.order(numbers)
    for message in job.until_told("formed", numbers, generation=2):
        assert message.source == "memory"
        assert message.agreed_step >= 8 - 3
        assert message.agreed_step % 3 == 0
    ended = {said["digest"] for said in job.until("ended", numbers)}
    assert ended == undisturbed(house, 2)


def test_ec27_what_training_does_after_a_snapshot_is_not_in_it(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=1, total=TOTAL, snapshot_every=4, pause_at=7)
    job.order([0])
    job[0].rank.until("paused", step=7)
    job[0].rank.signal(SIGKILL)
    job.start(0, seed=99, pause_at=None)
    job.order([0])
    assert job[0].until_told("formed", generation=2).agreed_step == 4
    assert {job[0].rank.until("ended")["digest"]} == undisturbed(house, 1)


def test_a_future_that_was_given_up_is_not_taken_from_memory(house: RankHouse) -> None:
    job = TrainingJob(house, TRAIN, workers=2, total=TOTAL, snapshot_every=2, pause_at=8)
    job.order([0, 1])
    job.until("paused", [0, 1], step=8)
    for number in (0, 1):
        job[number].rank.signal(SIGKILL)
        job.start(number, seed=7, pause_at=None)
    went_back = {"generation": 2, "start_step": 4}
    job.generation = 2  # the one that went back to step 4 is over
    job.order([0, 1], history=[went_back])
    assert {m.source for m in job.until_told("formed", [0, 1], generation=3)} == {"fresh"}


def test_ec49_a_rank_that_cannot_save_keeps_no_other_rank_waiting(
    house: RankHouse, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"total": TOTAL, "root": str(tmp_path), "checkpoint_every": 1}
    job = TrainingJob(house, TRAIN, workers=2, **settings)
    for pair in job.slots[1]:
        for slot in (0, 1):
            pair.hold(slot, until_ns=FOR_EVER_NS)
    job.order([0, 1])
    job[0].rank.until("step", step=TOTAL)
    job[1].rank.until("step", step=TOTAL)
    assert len(job[0].messages("checkpoint_due")) > 1
    assert job[1].messages("checkpoint_due") == []
