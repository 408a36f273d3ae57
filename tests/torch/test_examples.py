"""The scripts that users copy run as they are."""

import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "trainer" / "examples"
ALONE = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
"""What torchrun tells the only worker of a job."""


def losses(script: str, **variables: str) -> list[float]:
    """The losses that the script prints in twenty steps."""
    ended = subprocess.run(
        [sys.executable, str(EXAMPLES / script), "--steps", "20"],
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return [float(loss) for loss in re.findall(r"^step \d+: loss (\S+)$", ended.stdout, re.M)]


def test_the_example_trains_alone_under_plain_python() -> None:
    first, last = losses("train.py")
    assert last < first


def test_the_example_for_plain_torchrun_trains() -> None:
    first, last = losses("train_torchrun.py", **ALONE)
    assert last < first
