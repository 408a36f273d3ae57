"""Sub-commands of other packages, found by the entry-point group ``everstep.commands``."""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final

GROUP: Final = "everstep.commands"
"""Each entry point is a function: arguments -> exit status."""

Command = Callable[[list[str]], int]


def contributed_names() -> tuple[str, ...]:
    """What other packages contribute."""
    return tuple(sorted({found.name for found in entry_points(group=GROUP)}))


def contributed_command(name: str = "") -> Command | None:
    """The sub-command of that name, or None if nobody contributes it."""
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    command: Command | None = found.load() if found else None
    return command
