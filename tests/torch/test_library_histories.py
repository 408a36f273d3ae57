"""Random histories of deaths, freezes, holds, newcomers and orders that overtake each other.

Whatever happens: the members of a generation agree to the bit, and no step is lost that a living
member holds. A failure prints its seed.
"""

import random
import signal
import time
from collections.abc import Callable

import pytest
from support.ranks import RankHouse
from support.trainees import TrainingJob

TRAIN = "support.trainee_programs:train"
EVENTS = 6
LEAST, MOST = 2, 5
STEP_SECONDS = 0.05
"""About what a step takes: faults fall anywhere in one."""


class History:
    """One job and what happens to it, chosen by a seed."""

    def __init__(self, house: RankHouse, seed: int) -> None:
        self._random = random.Random(seed)
        self._job = TrainingJob(house, TRAIN, workers=4)
        self._members = [0, 1, 2, 3]
        self._next = 4
        self._order()

    def go(self) -> None:
        """Let some things happen, and see after each that the job goes on."""
        happenings: list[Callable[[], None]] = [
            self._lose_one,
            self._lose_two_while_forming,
            self._gain_one,
            self._hold,
            self._overtake,
            self._lose_the_store,
        ]
        for _ in range(EVENTS):
            time.sleep(self._random.random() * 3 * STEP_SECONDS)
            self._random.choice(happenings)()
            self._see()

    def _lose_one(self) -> None:
        if len(self._members) > LEAST:
            self._hurt()
        self._order()

    def _lose_two_while_forming(self) -> None:
        if len(self._members) > LEAST + 1:
            self._hurt()
            self._order()
            time.sleep(self._random.random() * STEP_SECONDS)
            self._hurt()
        self._order()

    def _gain_one(self) -> None:
        if len(self._members) < MOST:
            self._job.start(self._next, seed=self._next)
            self._members.insert(self._random.randrange(len(self._members) + 1), self._next)
            self._next += 1
        self._order()

    def _hold(self) -> None:
        held = self._job.park(self._members)
        self._job.until_told("parked", self._members, generation=held)
        self._order()

    def _overtake(self) -> None:
        for _ in range(3):
            self._order()

    def _lose_the_store(self) -> None:
        self._job.store.signal(signal.SIGKILL)
        self._order()
        self._job.another_store()
        self._order()

    def _hurt(self) -> None:
        victim = self._members.pop(self._random.randrange(len(self._members)))
        fault = self._random.choice([signal.SIGKILL, signal.SIGSTOP])
        self._job[victim].rank.signal(fault)

    def _order(self) -> None:
        self._job.order(self._members)

    def _see(self) -> None:
        """All members go on from the same state, and from the newest that one of them held."""
        job, members, generation = self._job, self._members, self._job.generation
        agreed = job.until("agreed", members, generation=generation)
        (step,) = {said["step"] for said in agreed}
        assert len({said["digest"] for said in agreed}) == 1
        held = [
            said["step"]
            for number in members
            for said in job[number].rank.said("step")
            if said["generation"] < generation
        ]
        assert step >= max(held, default=0)
        job.until("step", members, generation=generation, step=step + 1)


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 22))]
)
def test_r22_no_history_of_faults_loses_a_step_or_lets_replicas_differ(
    house: RankHouse, seed: int
) -> None:
    History(house, seed).go()
