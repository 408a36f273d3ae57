"""A whole training script that heals: copy it, and put in your model and your data.

    python trainer/examples/train.py                     # alone, to debug it
    everstep run --nnodes 6:8 trainer/examples/train.py  # as one member of a job

`train_torchrun.py` beside it is the same training as it is written for plain torchrun.
"""

import argparse
from collections.abc import Iterable
from typing import Final

import everstep
import torch
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Dataset, TensorDataset, default_collate

GLOBAL_BATCH: Final = 1680
"""Samples of one optimizer step, over all workers; any number of workers up to eight divides it."""
MICRO_BATCHES: Final = 2
"""Parts of a worker's share, one after the other: what gradient accumulation is for."""

Sample = tuple[torch.Tensor, ...]


def make_model() -> nn.Module:
    """A small network, the same on every worker."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 1))


def make_dataset() -> Dataset[Sample]:
    """Samples of a function that is to be learnt."""
    inputs = torch.randn(10 * GLOBAL_BATCH, 8, generator=torch.Generator().manual_seed(1))
    return TensorDataset(inputs, inputs.sin().sum(dim=1, keepdim=True))


class Batches:
    """Which samples each step reads: any worker can tell it of any step."""

    def __init__(self, dataset: Dataset[Sample], samples: int) -> None:
        self._dataset = dataset
        self._samples = samples

    def batches(self, step: int, rank: int, world_size: int) -> Iterable[list[torch.Tensor]]:
        """This rank's micro-batches; all ranks' together are the same for every world size."""
        epoch, turn = divmod(step, self._samples // GLOBAL_BATCH)
        shuffled = torch.randperm(self._samples, generator=torch.Generator().manual_seed(epoch))
        share = shuffled[turn * GLOBAL_BATCH : (turn + 1) * GLOBAL_BATCH][rank::world_size]
        for part in share.chunk(MICRO_BATCHES):
            yield default_collate([self._dataset[index] for index in part.tolist()])


def main() -> None:
    """Train for ``--steps`` optimizer steps."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100, help="optimizer steps in all")
    steps = parser.parse_args().steps
    data = Batches(make_dataset(), samples=10 * GLOBAL_BATCH)
    own = make_model()
    optimizer = torch.optim.AdamW(own.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for generation in everstep.join().generations():  # one turn per membership
        with generation:  # losing a peer ends this block, never the process
            model = DistributedDataParallel(own, device_mesh=generation.mesh)
            generation.track(model=model, optimizer=optimizer, scheduler=scheduler)
            for step in generation.steps(data, total=steps):  # one turn per optimizer step
                for inputs, targets in step.micro_batches:
                    loss = step.backward(functional.mse_loss(model(inputs), targets))
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                step.completed(loss=loss)
                if generation.rank == 0 and step.due(every=10):
                    print(f"step {step.index + 1}: loss {loss:.5f}")


if __name__ == "__main__":
    main()
