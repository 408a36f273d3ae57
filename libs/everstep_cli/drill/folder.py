"""Where a drill keeps its files, which go away however it ends."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

REMOVE_SECONDS: Final = 30.0
"""How long removing the folder may take."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder; the cluster's janitor, which outlives a drill that is killed, removes it."""
    folder = Path(tempfile.mkdtemp(prefix="everstep-drill-"))
    janitor = subprocess.Popen(
        [sys.executable, "-m", "everstep_simcluster.janitor", "", str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield folder
    finally:
        assert janitor.stdin is not None
        janitor.stdin.close()
        janitor.wait(REMOVE_SECONDS)
