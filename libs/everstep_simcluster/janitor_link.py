"""The cluster's end of its janitor, the process that cleans up after it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

END_TIMEOUT_SECONDS = 20.0
"""How long a closing cluster waits for its janitor."""


class Janitor:
    """Starts the janitor and tells it whom to end.

    Args:
        network: The number of the cluster's network and the file that claims it; the janitor
            holds the claim too, so nobody takes the number before it is done. None without one.
        folder: What is to be removed in the end; None for nothing.
    """

    def __init__(self, network: tuple[int, IO[str]] | None, folder: Path | None) -> None:
        number, claim = (str(network[0]), network[1]) if network else ("", None)
        read_end, self._pipe = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "everstep_simcluster.janitor", number, str(folder or "")],
            stdin=read_end,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,
            pass_fds=[claim.fileno()] if claim else [],
        )
        os.close(read_end)

    def watch(self, session: int) -> None:
        """Have that session die with the cluster."""
        self._say(f"+{session}\n")

    def forget(self, session: int) -> None:
        """That session has ended."""
        self._say(f"-{session}\n")

    async def close(self) -> None:
        """Let it finish; kills whatever is still being watched."""
        os.close(self._pipe)
        await asyncio.to_thread(self._process.wait, END_TIMEOUT_SECONDS)

    def _say(self, line: str) -> None:
        os.write(self._pipe, line.encode())
