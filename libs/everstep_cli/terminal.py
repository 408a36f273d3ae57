"""Where people read: as wide as their terminal, and wide enough for a file."""

import sys
from typing import Final

from rich.console import Console

FILE_WIDTH: Final = 140


def output() -> Console:
    """Standard output."""
    return Console(width=None if sys.stdout.isatty() else FILE_WIDTH)


def progress() -> Console:
    """Standard error: what is not the answer itself."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else FILE_WIDTH)
