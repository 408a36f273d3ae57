"""A job whose workers die, freeze, hold and come back, in the same processes."""

import signal

import pytest
from support.ranks import RankHouse
from support.trainees import TrainingJob

TRAIN = "support.trainee_programs:train"


@pytest.mark.parametrize("fault", ["SIGKILL", "SIGSTOP"])
def test_ec12_seven_go_on_in_their_processes_when_the_eighth_is_gone(
    house: RankHouse, fault: str
) -> None:
    job = TrainingJob(house, TRAIN, workers=8)
    everybody, survivors = list(range(8)), list(range(7))
    job.order(everybody)
    job.until("step", everybody, step=3)
    job[7].rank.signal(signal.Signals[fault])
    job.order(survivors)
    formed = job.until_told("formed", survivors, generation=2)
    assert {message.steps_lost for message in formed} == {0}
    job.until("step", survivors, generation=2, step=formed[0].agreed_step + 2)
    assert len({said["digest"] for said in job.until("agreed", survivors, generation=2)}) == 1
