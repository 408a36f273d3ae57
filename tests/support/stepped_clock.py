"""A clock that stands still until a test moves it."""

from datetime import datetime, timedelta


class SteppedClock:
    """As `everstep_runtime.clock.Clock`."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._monotonic = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def step(self, *, seconds: float) -> None:
        """Time goes on."""
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds
