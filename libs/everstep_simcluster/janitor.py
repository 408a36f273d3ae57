"""Cleans up after a cluster however it ends: run as a process of its own that outlives it.

It reads lines from its standard input: ``+PID`` names a session that is to die with the cluster,
``-PID`` one that has ended. When the input ends, as it does when the cluster's process dies, it
kills what is left and removes the cluster's network and its temporary folder. Every cluster starts
one, so it imports little.
"""

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from everstep_simcluster.network import remove_network
from everstep_simcluster.processes import kill_all

REMOVALS: Final = 30
REMOVAL_SECONDS: Final = 0.1


def main() -> int:
    """Wait for the cluster's end, then clean up."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sessions: set[int] = set()
    for line in sys.stdin:
        session = int(line[1:])
        if line.startswith("+"):
            sessions.add(session)
        else:
            sessions.discard(session)
    kill_all(sessions)
    network, folder = sys.argv[1:]
    if network:
        remove_network(int(network))
    if folder:
        _remove(Path(folder))
    return 0


def _remove(folder: Path) -> None:
    """Again while something is there: processes that are dying may still write."""
    for mounted in _mounts_below(folder):
        subprocess.run(["umount", "--lazy", mounted], check=False, capture_output=True)
    for _ in range(REMOVALS):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(REMOVAL_SECONDS)


def _mounts_below(folder: Path) -> list[str]:
    """File systems that somebody mounted in the folder, the innermost first."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    points = (line.split()[1] for line in mounts)
    return sorted((p for p in points if p.startswith(f"{folder}/")), reverse=True)


if __name__ == "__main__":
    sys.exit(main())
