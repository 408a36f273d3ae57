"""What workers write down of their steps, where somebody asks for it: evidence of their own.

    EVERSTEP_STEP_LOG=/logs everstep run train.py

A drill counts lost steps in it, rather than believe whoever it examines.
"""

import json
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

STEP_LOG_VARIABLE: Final = "EVERSTEP_STEP_LOG"
"""A folder: each worker writes a file of its own there. Unset: nothing is written."""

log = logging.getLogger("everstep")


class StepLog:
    """What a worker did, one JSON line an event, each written by one call.

    Lines of a process that dies are whole or absent. ``t`` is CLOCK_MONOTONIC in seconds, one
    clock for all processes of a machine; ``wall`` is seconds since 1970.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"worker-{os.getpid()}.jsonl"
        self._told = False
        self._fd = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    @classmethod
    def wanted(cls, environ: Mapping[str, str]) -> Self | None:
        """The log that the environment asks for, if it does.

        Raises:
            OSError: There can be no such folder, or no file in it.
        """
        folder = environ.get(STEP_LOG_VARIABLE)
        return cls(Path(folder)) if folder else None

    def write(self, event: str, **more: Any) -> None:
        """Append one event; a disk that takes none is told once, and costs no step."""
        now = {"t": time.monotonic(), "wall": time.time()}
        row = {**now, "event": event, "pid": os.getpid(), **more}
        try:
            os.write(self._fd, json.dumps(row).encode() + b"\n")
        except OSError as error:
            if not self._told:
                self._told = True
                log.warning("steps are not written down in %s: %s", self._path, error.strerror)
