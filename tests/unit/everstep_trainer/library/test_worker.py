"""What a worker process keeps."""

import os

import pytest
import torch
from everstep_checkpoint.slots import SlotPair
from everstep_trainer.backend import Ending
from everstep_trainer.library.cadence import Pacer, Wish
from everstep_trainer.library.errors import LaunchError
from everstep_trainer.library.snapshots import Snapshots
from everstep_trainer.library.state import JobState, Saving
from everstep_trainer.library.worker import Collectives, Worker
from everstep_trainer.page import FOR_EVER_NS, NOBODY, Page

CPU = Collectives("everstep", torch.device("cpu"))


def test_without_a_gpu_the_workers_are_connected_over_gloo() -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert Collectives.choose(None, local_rank=3) == CPU


def test_a_worker_without_a_gpu_of_its_own_cannot_use_nccl() -> None:
    with pytest.raises(LaunchError, match="local rank 99 has no GPU of its own"):
        Collectives.choose("nccl", local_rank=99)


def test_an_unknown_backend_is_told() -> None:
    with pytest.raises(LaunchError, match="backend 'mpi' is neither 'everstep' nor 'nccl'"):
        Collectives.choose("mpi", local_rank=0)


def make_worker() -> Worker:
    page = Page(os.dup(Page.create("test").fd))
    snapshots = Snapshots(SlotPair.create("state"), SlotPair.create("rank"), CPU.copier())
    return Worker(page, JobState(page, Saving(snapshots, Pacer(Wish()))), lambda _: None, CPU)


def test_a_worker_waits_until_its_agent_vouches_for_its_generation() -> None:
    worker, ending = make_worker(), Ending(2)
    worker.page.vouch(NOBODY, FOR_EVER_NS)
    asked: list[int] = []

    def is_enough(vouched: int) -> bool:
        asked.append(vouched)
        worker.page.vouch(2, FOR_EVER_NS)
        return vouched == 2

    assert worker.wait_for_agent(is_enough, ending)
    assert asked == [NOBODY, 2]
    assert not worker.wait_for_agent(is_enough, ending)


def test_a_worker_whose_generation_ends_waits_no_longer_for_its_agent() -> None:
    worker, ending = make_worker(), Ending(2)

    def is_enough(_vouched: int) -> bool:
        ending.end("generation 3 is ordered")
        return False

    assert worker.wait_for_agent(is_enough, ending)


def test_a_loader_keeps_its_place_over_generations_and_another_begins_anew() -> None:
    worker = make_worker()
    numbers = [10, 11, 12]
    assert worker.source_of(numbers).batches(0, 0, 1) == (10,)
    assert worker.source_of(numbers).batches(1, 0, 1) == (11,)
    assert worker.source_of([20]).batches(1, 0, 1) == (20,)
