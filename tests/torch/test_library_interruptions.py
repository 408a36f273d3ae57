"""R22: whichever line of the loop is interrupted, versions are right and nothing is done twice.

A worker is held at one line until an order has come, then the generation ends right there; the next
generation holds it at the next line. At the end the state must be, to the bit, that of a job which
nothing happened to: each step done once, with its own data, random numbers and learning rate.
"""

from typing import Any

import pytest
from support.ranks import RankHouse
from support.trainee_programs import INTERRUPTIBLE_LINES
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
