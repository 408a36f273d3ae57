"""What a worker process keeps."""

import os

import pytest
import torch
from everstep_trainer.library.errors import LaunchError
from everstep_trainer.library.state import JobState
from everstep_trainer.library.worker import Collectives, Worker
from everstep_trainer.page import Page

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


def test_a_loader_keeps_its_place_over_generations_and_another_begins_anew() -> None:
    page = Page(os.dup(Page.create("test").fd))
    worker = Worker(page, JobState(page), lambda _: None, CPU)
    numbers = [10, 11, 12]
    assert worker.source_of(numbers).batches(0, 0, 1) == (10,)
    assert worker.source_of(numbers).batches(1, 0, 1) == (11,)
    assert worker.source_of([20]).batches(1, 0, 1) == (20,)
