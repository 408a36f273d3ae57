"""One drill as its own process, for benches that run many."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

DRILL_SECONDS: Final = 600


def drill(fault: str, seed: int, *, against: bool, keep: Path | None = None) -> dict[str, Any]:
    """The document of one drill; of one that did not heal, everything stays below ``keep``."""
    command = [sys.executable, "-m", "everstep_cli", "drill", "--json"]
    command += ["--fault", fault, "--seed", str(seed)]
    command += ["--against", "torchrun"] if against else []
    folder = keep / f"{fault}-{seed}" if keep else None
    command += ["--keep", str(folder)] if folder else []
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=DRILL_SECONDS, check=False
    )
    document: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"healed": False}
    if folder and done.returncode == 0:
        shutil.rmtree(folder)
    return document
