"""Recorded HTTP exchanges, sent again: what changes from run to run is translated both ways."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
_MADE_UP = ("resourceVersion", "uid", "continue")


@dataclass(frozen=True)
class Exchange:
    """One request with the answer that the real server gave."""

    number: int
    note: str
    method: str
    path: str
    content_type: str
    body: Any
    status: int
    retry_after: str | None
    answer: Any


def exchanges(path: Path) -> list[Exchange]:
    """The exchanges of one transcript, in order."""
    return [
        Exchange(
            number=number,
            note=str(one["note"]),
            method=one["request"]["method"],
            path=one["request"]["path"],
            content_type=one["request"]["headers"].get("Content-Type", ""),
            body=one["request"]["body"],
            status=one["response"]["status"],
            retry_after=one["response"]["headers"].get("Retry-After"),
            answer=one["response"]["body"],
        )
        for number, one in enumerate(json.loads(path.read_text())["exchanges"])
    ]


class Translation:
    """Which recorded uid, resourceVersion or token is which of ours; learnt from the answers."""

    def __init__(self) -> None:
        self._ours: dict[str, str] = {}

    def learn(self, recorded: str, ours: str) -> None:
        """Put ``ours`` wherever a request or an answer has ``recorded``."""
        self._ours[recorded] = ours

    def request_text(self, recorded: str) -> str:
        """A request with what was learnt put in place of what was recorded."""
        for theirs, ours in self._ours.items():
            recorded = re.sub(rf"(?<![\w.-]){re.escape(theirs)}(?![\w-])", ours, recorded)
        return recorded

    def differences(self, recorded: Any, ours: Any, where: str = "") -> Iterator[str]:
        """What the recorded answer has and ours has not, or has otherwise.

        Null counts as absent, and so does an empty text: not all clients are sent them.
        """
        if isinstance(recorded, dict) and isinstance(ours, Mapping):
            for key, value in recorded.items():
                mine = ours.get(key, ours.get(self.request_text(key)))
                yield from self._field(key, value, mine, f"{where}.{key}")
        elif isinstance(recorded, list) and isinstance(ours, list):
            if len(recorded) != len(ours):
                yield f"{where}: {len(recorded)} items recorded, {len(ours)} ours"
            for number, (theirs, mine) in enumerate(zip(recorded, ours, strict=False)):
                yield from self.differences(theirs, mine, f"{where}[{number}]")
        elif isinstance(recorded, str) and isinstance(ours, str):
            if not _alike(self.request_text(recorded), ours):
                yield f"{where}: {recorded!r} recorded, {ours!r} ours"
        elif recorded != ours and not (recorded in (None, "", {}) and not ours):
            yield f"{where}: {recorded!r} recorded, {ours!r} ours"

    def _field(self, key: str, recorded: Any, ours: Any, where: str) -> Iterator[str]:
        if key not in _MADE_UP or not recorded:
            yield from self.differences(recorded, ours, where)
        elif not ours:
            yield f"{where}: {recorded!r} recorded, nothing ours"
        elif self._ours.setdefault(recorded, ours) != ours:
            yield f"{where}: recorded once more, but ours changed to {ours!r}"


def _alike(recorded: str, ours: str) -> bool:
    if _TIME.match(recorded) and _TIME.match(ours):
        return True
    return recorded == ours
