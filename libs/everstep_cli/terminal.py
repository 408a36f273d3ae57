"""Where people read: as wide as their terminal, and wide enough for a file."""

import re
import sys
from typing import Any, Final

from rich.console import Console
from rich.text import Text

FILE_WIDTH: Final = 140
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Plain(Console):
    """Shows what others wrote as it is: brackets are no markup, and no letter moves the cursor."""

    def render_str(self, text: str, **style: Any) -> Text:
        """The text, with control characters spelled out."""
        style |= {"markup": False, "emoji": False}
        return super().render_str(_CONTROL.sub(lambda one: repr(one[0])[1:-1], text), **style)


def output() -> Console:
    """Standard output."""
    return Plain(width=None if sys.stdout.isatty() else FILE_WIDTH)


def progress() -> Console:
    """Standard error: what is not the answer itself."""
    return Plain(stderr=True, width=None if sys.stderr.isatty() else FILE_WIDTH)
