"""A peer dies or freezes in the middle of a step; the others leave, and form again without it."""

from typing import Any

import pytest
from support.rank_jobs import Job, start_job
from support.ranks import RankHouse

SURVIVORS = [0, 2, 3]
EVERYBODY = [0, 1, 2, 3]
STEPS = 3
WORKS = ("all_reduce", "ddp", "fsdp")


def fault(name: str, count: int) -> dict[str, Any]:
    return {"at": "collective", "generation": 0, "count": count, "signal": name}


@pytest.fixture
def undisturbed(house: RankHouse, work: str) -> dict[Any, str]:
    """What three ranks compute to whom nothing happens."""
    job = start_job(house, 3, work)
    generation = job.order([0, 1, 2])
    losses = job.losses([0, 1, 2], generation, STEPS)
    job.end()
    return losses


def disturbed(house: RankHouse, work: str, name: str, count: int) -> Job:
    job = start_job(house, 4, work, fault_1=fault(name, count))
    job.order(EVERYBODY)
    job.until("hurt", [1])
    return job


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("work", WORKS)
def test_ec12_survivors_blocked_in_a_collective_are_freed(
    house: RankHouse, work: str, name: str, undisturbed: dict[Any, str]
) -> None:
    job = disturbed(house, work, name, count=9)
    generation = job.order(SURVIVORS)
    assert job.losses(SURVIVORS, generation, STEPS) == undisturbed


@pytest.mark.parametrize("work", ["ddp"])
def test_a_broken_collective_is_told_apart_from_an_order(house: RankHouse, work: str) -> None:
    job = disturbed(house, work, "SIGKILL", count=9)
    outs = job.until("out", [0, 2], generation=0)  # the victim's neighbours in gloo's ring
    assert [(out["ended"], out["failed"]) for out in outs] == [(False, "allreduce")] * 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGSTOP"])
@pytest.mark.parametrize("work", [*WORKS, "hsdp"])
@pytest.mark.parametrize("count", range(3, 40, 4))
def test_ec12_holds_wherever_the_peer_is_lost(
    house: RankHouse, work: str, name: str, count: int
) -> None:
    size, victims = (6, [2, 3]) if work == "hsdp" else (4, [1])
    faults: dict[str, Any] = {f"fault_{me}": fault(name, count) for me in victims}
    job = start_job(house, size, work, **faults)
    survivors = [me for me in range(size) if me not in victims]
    job.order(list(range(size)))
    job.until("hurt", victims)
    generation = job.order(survivors)
    job.until("step", survivors, generation=generation, step=STEPS)
