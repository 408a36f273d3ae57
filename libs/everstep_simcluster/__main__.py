"""``python -m everstep_simcluster``: a cluster as a process of its own.

Prints one JSON line when it is ready and runs until SIGTERM or SIGINT, or until its standard input
ends where ``--until-stdin-ends`` says so.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from everstep_simcluster.cluster import Cluster
from everstep_simcluster.control import describe
from everstep_simcluster.errors import SimulationError
from everstep_simcluster.settings import ClusterSettings


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read flags, with defaults from the settings."""
    normal = ClusterSettings()
    parser = argparse.ArgumentParser("everstep_simcluster", description=__doc__)
    kinds = {
        "nodes": int, "gpus-per-node": int, "networks": str, "folder": Path, "port": int,
        "namespaces": str, "heartbeat-seconds": float, "node-grace-seconds": float,
        "restart-delay-seconds": float, "pod-start-seconds": float, "pod-stop-seconds": float,
        "toleration-seconds": int, "job-delay-seconds": float, "scheduler-period-seconds": float,
        "budget-delay-seconds": float,
        "bookmark-seconds": float, "template-socket": Path, "template-prefix": str,
    }  # fmt: skip
    for flag, kind in kinds.items():
        default = getattr(normal, flag.replace("-", "_"))
        if isinstance(default, tuple):
            default = " ".join(default)
        parser.add_argument(f"--{flag}", type=kind, default=default)
    parser.add_argument("--no-controllers", dest="controllers", action="store_false")
    parser.add_argument("--no-volcano-webhook", dest="volcano_webhook", action="store_false")
    parser.add_argument("--until-stdin-ends", action="store_true")
    return parser.parse_args(arguments)


def settings_of(flags: argparse.Namespace) -> ClusterSettings:
    """The settings that the flags name."""
    values = {key: value for key, value in vars(flags).items() if key != "until_stdin_ends"}
    for name in ("namespaces", "template_prefix"):
        values[name] = tuple(values[name].split())
    return ClusterSettings(**values)


async def run(settings: ClusterSettings, *, until_stdin_ends: bool) -> None:
    """Run a cluster until it is told to stop."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with Cluster(settings) as cluster:
        if until_stdin_ends:
            loop.add_reader(sys.stdin.fileno(), _stop_at_end, stop)
        sys.stdout.write(
            json.dumps({"ready": True, "pid": os.getpid(), **describe(cluster)}) + "\n"
        )
        sys.stdout.flush()
        await asyncio.wait(
            [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(cluster.failed())],
            return_when=asyncio.FIRST_COMPLETED,
        )


def _stop_at_end(stop: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()


def main() -> int:
    """Read the flags, then run."""
    flags = parse(sys.argv[1:])
    try:
        asyncio.run(run(settings_of(flags), until_stdin_ends=flags.until_stdin_ends))
    except (SimulationError, OSError, ValueError) as error:
        sys.stderr.write(f"everstep_simcluster: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
