"""Sub-commands of other packages, found by the entry-point group ``everstep.commands``.

A dot in a name makes it a command of a group: ``checkpoints.export``.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Final

GROUP: Final = "everstep.commands"
"""Each entry point is a function: arguments -> exit status."""

Command = Callable[[list[str]], int]


def contributed_names() -> tuple[str, ...]:
    """What other packages contribute."""
    return tuple(sorted({found.name for found in entry_points(group=GROUP)}))


def contributed(arguments: list[str]) -> tuple[Command, list[str]] | None:
    """The command that these arguments begin with, and those that are its own."""
    for words in (2, 1):
        if len(arguments) < words:
            continue
        command = contributed_command(".".join(arguments[:words]))
        if command:
            return command, arguments[words:]
    return None


def contributed_command(name: str = "") -> Command | None:
    """The sub-command of that name, or None if nobody contributes it."""
    found = next(iter(entry_points(group=GROUP, name=name)), None)
    command: Command | None = found.load() if found else None
    return command
