"""The same training as `drill_train`, as it is written for plain torchrun: the drill's comparison.

    torchrun --nnodes 6:8 trainer/everstep_trainer/drill_torchrun.py --directory DIR

A checkpoint every 20 steps on shared storage, and every new process resumes from the newest.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from everstep_trainer.drill_model import (
    Text,
    argument_parser,
    make_model,
    make_optimizer,
    make_scheduler,
)
from everstep_trainer.step_log import StepLog

CHECKPOINT_EVERY: Final = 20


def main() -> None:
    """Train until the steps are done, or until torchrun ends this process."""
    parser = argument_parser("Train the drill's model under plain torchrun.")
    parser.add_argument("--directory", type=Path, required=True, help="of steps and checkpoint")
    parser.add_argument(
        "--timeout-seconds", type=float, default=0.0, help="of collectives; 0: torch's own"
    )
    arguments = parser.parse_args()
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    place = {"member": str(os.getppid()), "rank": rank, "world_size": world_size, "generation": 0}
    log = StepLog(arguments.directory)
    log.write("start", **place)
    timeout = timedelta(seconds=arguments.timeout_seconds) if arguments.timeout_seconds else None
    dist.init_process_group("gloo", timeout=timeout)
    own = make_model(arguments.seed)
    model = DistributedDataParallel(own, gradient_as_bucket_view=True)
    optimizer = make_optimizer(own)
    scheduler = make_scheduler(optimizer)
    parts = {"model": own, "optimizer": optimizer, "scheduler": scheduler}
    checkpoint = arguments.directory / "checkpoint.pt"
    first = _load(checkpoint, parts)
    log.write("formed", step=first, **place)
    text = Text(arguments.seed)
    for step in range(first, arguments.steps):
        for batch in text.batches(step, rank, world_size):
            loss = model(batch)
            loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        log.write("step", step=step + 1, loss=loss.item(), **place)
        if (step + 1) % CHECKPOINT_EVERY == 0 and rank == 0:
            _save(checkpoint, parts, step + 1)
    log.write("end", **place)
    dist.destroy_process_group()


def _load(checkpoint: Path, parts: dict[str, Any]) -> int:
    """Completed steps of the checkpoint that was loaded; 0 if there is none."""
    if not checkpoint.exists():
        return 0
    saved = torch.load(checkpoint)
    for name, part in parts.items():
        part.load_state_dict(saved[name])
    return int(saved["step"])


def _save(checkpoint: Path, parts: dict[str, Any], step: int) -> None:
    partial = checkpoint.with_suffix(".partial")
    torch.save({"step": step} | {name: part.state_dict() for name, part in parts.items()}, partial)
    partial.replace(checkpoint)


if __name__ == "__main__":
    main()
