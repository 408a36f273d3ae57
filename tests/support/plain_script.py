"""A plain torchrun script, which knows nothing of Everstep: sums ones over all ranks for ever.

    python plain_script.py FOLDER

Appends ``GENERATION WORLD_SIZE SUM`` to FOLDER/sums-RANK after each step.
"""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    world, attempt = dist.get_world_size(), os.environ["TORCHELASTIC_RESTART_COUNT"]
    with (Path(sys.argv[1]) / f"sums-{dist.get_rank()}").open("a") as sums:
        while True:
            total = torch.ones(1)
            dist.all_reduce(total)
            sums.write(f"{attempt} {world} {int(total)}\n")
            sums.flush()
            time.sleep(0.01)


if __name__ == "__main__":
    main()
