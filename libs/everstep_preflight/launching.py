"""What a container starts: which launcher, with which flags; scripts are read as a shell would."""

import re
import shlex
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from everstep_preflight.located import Located

_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh"})
_TORCHRUN_MODULES: Final = frozenset({"torch.distributed.run", "torch.distributed.launch"})
_WITHOUT_VALUE: Final = frozenset(
    {"standalone", "module", "m", "no-python", "run-path", "virtual-local-rank", "use-env"}
)
_SHELL_OPERATORS: Final = frozenset({"&&", "||", ";", "|", "&"})
_VARIABLE: Final = re.compile(r"\$")


class Launcher(StrEnum):
    """Who starts the workers."""

    EVERSTEP = "everstep run"
    TORCHRUN = "torchrun"
    OTHER = "another launcher"


_OTHERS: Final = frozenset({"deepspeed", "mpirun", "horovodrun", "accelerate", "composer"})


@dataclass(frozen=True)
class Flag:
    """One flag: its value, the words as they are written, and the string they are in."""

    value: str
    written: str
    at: Located

    @property
    def line(self) -> int:
        """Where it stands."""
        return self.at.line_of(self.written)

    @property
    def is_literal(self) -> bool:
        """Whether no variable is in it, which only the container could fill in."""
        return not _VARIABLE.search(self.value)


@dataclass(frozen=True)
class Launch:
    """A launcher and its flags, named without leading dashes and with ``-`` for ``_``."""

    launcher: Launcher
    flags: dict[str, Flag]
    words: tuple[str, ...]
    at: Located
    written: str

    @property
    def line(self) -> int:
        """Where the launcher is named."""
        return self.at.line_of(self.written)

    @property
    def members(self) -> tuple[int, int] | None:
        """The least and the most of ``--nnodes``, where both are plain numbers."""
        flag = self.flags.get("nnodes")
        bounds = flag.value.split(":") if flag else []
        if not 1 <= len(bounds) <= 2 or not all(re.fullmatch("[0-9]{1,6}", b) for b in bounds):
            return None
        return int(bounds[0]), int(bounds[-1])


@dataclass(frozen=True)
class _Word:
    text: str
    at: Located


def launch_of(container: Located) -> Launch | None:
    """The launcher that a container's command, arguments and PET_* variables show; None if none."""
    words = _words(container)
    for index, word in enumerate(words):
        launcher, length = _launcher(words, index)
        if launcher:
            behind = words[index + length :]
            flags = {**_environment_flags(container), **_flags(behind)}
            written = " ".join(w.text for w in words[index : index + length])
            said = written if word.at.line_of(written) != word.at.line else word.text
            return Launch(launcher, flags, tuple(w.text for w in behind), word.at, said)
    return None


def _words(container: Located) -> list[_Word]:
    fields = (container.get("command"), container.get("args"))
    listed = [item for field in fields if field for item in field.items()]
    plain = [_Word(item.words() or "", item) for item in listed]
    if not plain or plain[0].text.rpartition("/")[2] not in _SHELLS:
        return plain
    script = next((word for word in plain[1:] if not word.text.startswith("-")), None)
    return [_Word(text, script.at) for text in _split(script.text)] if script else plain


def _split(script: str) -> list[str]:
    script = script.replace("\\\n", " ")  # a line that goes on
    try:
        return shlex.split(script, comments=True)
    except ValueError:  # a quote that is not closed, a heredoc: the words themselves will do
        return script.split()


def _launcher(words: list[_Word], index: int) -> tuple[Launcher | None, int]:
    name = words[index].text.rpartition("/")[2]
    following = words[index + 1].text if index + 1 < len(words) else ""
    if name == "everstep" and following == "run":
        return Launcher.EVERSTEP, 2
    if name == "torchrun":
        return Launcher.TORCHRUN, 1
    if name == "-m" and following in _TORCHRUN_MODULES:
        return Launcher.TORCHRUN, 2
    if name in _OTHERS and not words[index].text.startswith("-"):
        return Launcher.OTHER, 1
    return None, 1


def _flags(words: list[_Word]) -> dict[str, Flag]:
    """Up to the script: what follows it is the script's own."""
    flags: dict[str, Flag] = {}
    index = 0
    while index < len(words) and words[index].text.startswith("-"):
        word = words[index]
        name, equals, value = word.text.partition("=")
        name, written = name.lstrip("-").replace("_", "-"), word.text
        if not equals and name not in _WITHOUT_VALUE and index + 1 < len(words):
            index += 1
            value = words[index].text
            written = value if words[index].at != word.at else written
        if value not in _SHELL_OPERATORS:
            flags.setdefault(name, Flag(value, written, word.at if equals else words[index].at))
        index += 1
    return flags


def _environment_flags(container: Located) -> dict[str, Flag]:
    flags = {}
    entries = container.get("env")
    for entry in entries.items() if entries else ():
        name, value = entry.get("name"), entry.get("value")
        variable = (name and name.text()) or ""
        if variable.startswith("PET_") and value and value.words() is not None:
            flag = variable.removeprefix("PET_").lower().replace("_", "-")
            flags[flag] = Flag(value.words() or "", value.words() or "", value)
    return flags
