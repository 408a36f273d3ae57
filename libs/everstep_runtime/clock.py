"""Time as an argument: the system's clock, or one that a test or a simulation moves."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol, Self


class Clock(Protocol):
    """What time it is. Stamps come from `now`; durations are judged by `monotonic` alone."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some instant of this process's choice; never goes back."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(frozen=True)
class Moment:
    """Now: ``at`` for stamps, ``monotonic`` seconds for every judgement about durations."""

    at: datetime
    monotonic: float

    @classmethod
    def of(cls, clock: Clock) -> Self:
        """What the clock says."""
        return cls(clock.now(), clock.monotonic())
