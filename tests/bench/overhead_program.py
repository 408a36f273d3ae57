"""What a worker of the overhead bench does: a step plainly and one with Everstep, in turns."""

import random
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import everstep
import torch
import torch.distributed as dist
from everstep_trainer.drill_model import Text, make_model, make_optimizer, make_scheduler
from support.ranks import Link
from support.trainee_programs import inherit
from torch.nn.parallel import DistributedDataParallel

SEED = 0
WARM_UP_PAIRS = 3


class Training:
    """One copy of the drill's training, on one process group."""

    def __init__(self, **group: Any) -> None:
        self.own = make_model(SEED)
        self.model = DistributedDataParallel(self.own, gradient_as_bucket_view=True, **group)
        self.optimizer = make_optimizer(self.own)
        self.scheduler = make_scheduler(self.optimizer)

    def update(self) -> None:
        """What follows the backward of the last micro-batch."""
        self.optimizer.step()
        self.scheduler.step()
        self.optimizer.zero_grad()


def measure(link: Link, descriptors: list[int], local_rank: int, number: int, pairs: int) -> None:
    """Say, for each pair, what the plain step and Everstep's took, and both losses."""
    inherit(descriptors, local_rank)
    text = Text(SEED)
    for generation in everstep.join().generations():
        plain = Training(process_group=dist.new_group(backend="gloo"))  # not Everstep's to agree on
        with generation:
            ours = Training(device_mesh=generation.mesh)
            generation.track(model=ours.model, optimizer=ours.optimizer, scheduler=ours.scheduler)
            plain_steps = _plain_steps(plain, text, generation.rank, generation.world_size)
            our_steps = _our_steps(ours, generation.steps(text, total=pairs + WARM_UP_PAIRS))
            for index in range(-WARM_UP_PAIRS, pairs):
                plain_first = random.Random(index).random() < 0.5  # the same on every rank
                order = (plain_steps, our_steps) if plain_first else (our_steps, plain_steps)
                taken = {steps: _timed(steps) for steps in order}
                if generation.rank == 0:  # nobody reads what the others say, and a link fills up
                    link.say("pair", index=index, plain=taken[plain_steps], ours=taken[our_steps])


def _plain_steps(
    training: Training, text: Text, rank: int, world_size: int
) -> Iterator[torch.Tensor]:
    for step in count():
        for batch in text.batches(step, rank, world_size):
            loss = training.model(batch)
            loss.backward()
        training.update()
        yield loss


def _our_steps(training: Training, steps: Iterator[everstep.Step]) -> Iterator[torch.Tensor]:
    for step in steps:
        for batch in step.micro_batches:
            loss = step.backward(training.model(batch))
        training.update()
        step.completed(loss=loss)
        yield loss


def _timed(steps: Iterator[torch.Tensor]) -> tuple[float, float, float]:
    """Seconds, CPU seconds here, and loss of one step; ranks begin and end it together."""
    dist.barrier()
    began, cpu_began = time.perf_counter(), time.process_time()
    loss = next(steps)
    dist.barrier()
    return time.perf_counter() - began, time.process_time() - cpu_began, loss.item()
