"""A script whose losses depend on everything that a state is made of; each rank notes its own.

    python drawing_script.py FOLDER TOTAL CHECKPOINT_EVERY

Appends ``STEP RANK LOSS`` to FOLDER/losses-RANK after each step, the loss to the bit. While there
is a FOLDER/hold-STEP, nobody begins that step.
"""

import random
import sys
import time
from pathlib import Path

import everstep
import numpy as np
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WIDTH = 32


def main() -> None:
    folder, total, every = Path(sys.argv[1]), *map(int, sys.argv[2:])
    torch.manual_seed(1)
    own = nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.Dropout(0.3), nn.Linear(WIDTH, WIDTH)
    )
    optimizer = torch.optim.AdamW(own.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.9)
    job = everstep.join(checkpoint_every=every)
    for generation in job.generations():
        with generation:
            model = DistributedDataParallel(own, device_mesh=generation.mesh)
            generation.track(model=model, optimizer=optimizer, scheduler=scheduler)
            if generation.step == 0:
                seed(generation.rank)
            for step in generation.steps(total=total):
                while (folder / f"hold-{step.index + 1}").exists():
                    time.sleep(0.01)
                batch = torch.randn(8, WIDTH) * random.random() + float(np.random.rand())
                loss = step.backward(model(batch).square().mean())
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                step.completed(loss=loss)
                with (folder / f"losses-{generation.rank}").open("a") as notes:
                    notes.write(f"{step.index + 1} {generation.rank} {float(loss).hex()}\n")


def seed(rank: int) -> None:
    """Each rank draws numbers of its own."""
    torch.manual_seed(rank)
    random.seed(rank)
    np.random.seed(rank)


if __name__ == "__main__":
    main()
