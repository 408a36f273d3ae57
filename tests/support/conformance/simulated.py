"""Simulated clusters as processes of their own, reached like any other by a kubeconfig."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_QUICK = (
    "--nodes", "0", "--networks", "none", "--node-grace-seconds", "4", "--bookmark-seconds", "1",
    "--budget-delay-seconds", "0.1",
)  # fmt: skip
_END_SECONDS = 20


@contextmanager
def simulated_cluster(*flags: str) -> Iterator[Path]:
    """The kubeconfig of a cluster without nodes, which lives as long as the context."""
    command = [sys.executable, "-m", "everstep_simcluster", *_QUICK, *flags, "--until-stdin-ends"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        ready = process.stdout.readline()
        assert ready, "the simulated cluster did not start"
        try:
            yield Path(json.loads(ready)["kubeconfig"])
        finally:
            process.stdin.close()
            process.wait(_END_SECONDS)
