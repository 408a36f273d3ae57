"""Live progress of a drill on stderr: members as a grid, step and loss, events as they happen."""

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from everstep_contract.base import Event
from everstep_contract.telemetry import MemberPhase, MemberReport
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from everstep_cli.describe import line_of
from everstep_cli.drill.story import Story

SHOWN_EVENTS: Final = 10
SILENT_SECONDS: Final = 1.5
"""A member is drawn as silent when its reports, two a second, stop for this long."""
REFRESHES_PER_SECOND: Final = 5
_COLOURS: Final[dict[MemberPhase, str]] = {
    "starting": "dim",
    "ready": "cyan",
    "leaving": "yellow",
    "joined": "yellow",
    "formed": "yellow",
    "stepping": "green",
    "holding": "magenta",
    "stopped": "dim",
}


@dataclass(frozen=True)
class _Tile:
    report: MemberReport
    heard_at: datetime


class Board:
    """What is shown; on a terminal redrawn in place, elsewhere one line an event.

    ``verbose``: every event; else those that tell the story.
    """

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        self._console = console
        self._story = Story(everything=verbose)
        self._tiles: dict[str, _Tile] = {}
        self._recent: deque[str] = deque(maxlen=SHOWN_EVENTS)
        self._headline = ""
        self.loss: float | None = None
        self._live = Live(
            get_renderable=self.render,
            console=console,
            refresh_per_second=REFRESHES_PER_SECOND,
            transient=True,
        )

    def __enter__(self) -> "Board":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def forget(self) -> None:
        """The members are gone."""
        self._tiles.clear()
        self.loss = None

    def say(self, headline: str) -> None:
        """What the drill does now."""
        self._headline = headline
        self._note(headline)

    def event(self, event: Event) -> None:
        """A fact from the bus."""
        if self._story.tells(event):
            self._note(line_of(event))

    def report(self, report: MemberReport) -> None:
        """An agent's telemetry."""
        self._tiles[report.member.name] = _Tile(report, datetime.now(UTC))

    def render(self) -> RenderableType:
        """The board as it is now."""
        now = datetime.now(UTC)
        grid = Table.grid(padding=(0, 2))
        tiles = [_drawn(self._tiles[name], now) for name in sorted(self._tiles)]
        for start in range(0, len(tiles), 4):
            grid.add_row(*tiles[start : start + 4])
        step = max((tile.report.step for tile in self._tiles.values()), default=0)
        loss = "" if self.loss is None else f", loss {self.loss:.3f}"
        return Group(
            Text(self._headline, "bold"), grid, Text(f"step {step}{loss}"), *map(Text, self._recent)
        )

    def _note(self, line: str) -> None:
        self._recent.append(line)
        if not self._console.is_terminal:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _drawn(tile: _Tile, now: datetime) -> Text:
    report = tile.report
    silent = (now - tile.heard_at).total_seconds() > SILENT_SECONDS
    colour, phase = ("red", "silent") if silent else (_COLOURS[report.phase], report.phase)
    return Text(f"{report.member.name} {phase} g{report.generation}", colour)
