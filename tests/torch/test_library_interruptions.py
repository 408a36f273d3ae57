"""R22: whichever line of the loop is interrupted, versions are right and nothing is done twice.

A worker is held at one line until an order has come, then the generation ends right there; the next
generation holds it at the next line. At the end the state must be, to the bit, that of a job which
nothing happened to: each step done once, with its own data, random numbers and learning rate.
"""

from typing import Any

import pytest
from support.ranks import RankHouse
from support.trainee_programs import INTERRUPTIBLE_LINES, line_index
from support.trainees import TrainingJob

TRAIN = "support.trainee_programs:train"
TOTAL = 3 * INTERRUPTIBLE_LINES


def final_digest(job: TrainingJob, numbers: list[int]) -> str:
    """What all of them hold at the end of the training."""
    (digest,) = {said["digest"] for said in job.until("ended", numbers)}
    return str(digest)


def undisturbed(house: RankHouse, **settings: Any) -> str:
    job = TrainingJob(house, TRAIN, workers=2, total=TOTAL, **settings)
    job.order([0, 1])
    return final_digest(job, [0, 1])


@pytest.mark.parametrize("held", [[0, 1], [0]], ids=["all workers", "one of two workers"])
@pytest.mark.parametrize("optimizers", [1, 2])
def test_r22_an_interruption_at_any_line_changes_nothing_of_the_result(
    house: RankHouse, held: list[int], optimizers: int
) -> None:
    settings = {"optimizers": optimizers, "snapshot_every": 1 if optimizers > 1 else 0}
    lines = {str(line + 1): line for line in range(INTERRUPTIBLE_LINES)}
    job = TrainingJob(house, TRAIN, workers=0)
    for number in (0, 1):
        job.start(number, total=TOTAL, lines=lines if number in held else None, **settings)
    job.order([0, 1])
    for generation in range(1, INTERRUPTIBLE_LINES + 1):
        job.until("at_line", held, generation=generation)
        job.order([0, 1])
    assert final_digest(job, [0, 1]) == undisturbed(house, **settings)
    formed = [message for number in (0, 1) for message in job[number].messages("formed")]
    assert {message.steps_lost for message in formed} == {0}


def torn_job(house: RankHouse, held: list[int], **settings: Any) -> TrainingJob:
    """Two workers of which some are to be interrupted between their two optimizers' steps."""
    line = line_index("parts.step_the_others()")
    job = TrainingJob(house, TRAIN, workers=0)
    for number in (0, 1):
        lines = {"1": line} if number in held else None
        job.start(number, total=TOTAL, optimizers=2, lines=lines, **settings)
    job.order([0, 1])
    job.until("at_line", held, generation=1)
    job.until("step", [number for number in (0, 1) if number not in held], step=2)
    job.order([0, 1])
    return job


def test_r22_if_every_replica_is_torn_all_go_back_to_the_newest_snapshot(house: RankHouse) -> None:
    job = torn_job(house, held=[0, 1], snapshot_every=2)
    for message in job.until_told("formed", [0, 1], generation=2):
        assert (message.agreed_step, message.steps_lost) == (0, 1)
    assert final_digest(job, [0, 1]) == undisturbed(house, optimizers=2)


def test_r22_a_torn_replica_says_so_and_copies_from_a_whole_one(house: RankHouse) -> None:
    job = torn_job(house, held=[0])
    assert job[0].until_told("left", generation=2).version == -1
    assert job[0].until_told("formed", generation=2).agreed_step == 2
    assert final_digest(job, [0, 1]) == undisturbed(house, optimizers=2)


def test_r22_if_no_replica_is_whole_and_none_kept_a_copy_the_script_is_told(
    house: RankHouse,
) -> None:
    job = torn_job(house, held=[0, 1], snapshot_every=0)
    assert "no living worker holds a whole state" in job[0].rank.until("crashed")["error"]
