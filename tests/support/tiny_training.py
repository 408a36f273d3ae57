"""A script that trains a tiny model with the library, for ever, and notes each step.

    python tiny_training.py FOLDER [CHECKPOINT_EVERY]

Appends ``GENERATION STEP WORLD_SIZE DIGEST`` to FOLDER/tiny-PID after each step. While there is a
FOLDER/hold-PID it stays before the optimizer's step, with FOLDER/held-PID to say so.
"""

import os
import sys
import time
from pathlib import Path

import everstep
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def batches(step: int, rank: int, _world_size: int) -> list[torch.Tensor]:
    """One micro-batch, unlike any other step's or rank's."""
    return [torch.full((4, 64), 1.0 + step % 10 + rank / 10)]


def stay(folder: Path) -> None:
    """Hold here for as long as the test wants."""
    hold, held = (folder / f"{word}-{os.getpid()}" for word in ("hold", "held"))
    while hold.exists():
        held.touch()
        time.sleep(0.001)
    held.unlink(missing_ok=True)


def main() -> None:
    folder = Path(sys.argv[1])
    torch.manual_seed(1)
    own = nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(own.parameters(), lr=1e-3)
    job = everstep.join(checkpoint_every=int(sys.argv[2]) if len(sys.argv) > 2 else None)
    with (folder / f"tiny-{os.getpid()}").open("a") as notes:
        for generation in job.generations():
            with generation:
                model = DistributedDataParallel(own, device_mesh=generation.mesh)
                generation.track(model=model, optimizer=optimizer)
                for step in generation.steps(batches, total=1_000_000):
                    for batch in step.micro_batches:
                        loss = step.backward(model(batch).square().mean())
                    stay(folder)
                    optimizer.step()
                    optimizer.zero_grad()
                    step.completed(loss=loss)
                    digest = float(own.weight.sum()).hex()
                    place = f"{generation.number} {generation.step} {generation.world_size}"
                    notes.write(f"{place} {digest}\n")
                    notes.flush()
                    time.sleep(0.01)


if __name__ == "__main__":
    main()
