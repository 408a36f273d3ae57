"""Named alarms on the event loop: set again, they move; cancelled, they are gone."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class Timers(Generic[Key]):
    """At most one alarm for each key; ``ring`` is called with the key when it goes off."""

    def __init__(self, ring: Callable[[Key], None]) -> None:
        self._ring = ring
        self._handles: dict[Key, asyncio.TimerHandle] = {}

    def set(self, key: Key, delay_seconds: float) -> None:
        """Have ``key`` ring after the delay, counted from now."""
        self.cancel(key)
        loop = asyncio.get_running_loop()
        self._handles[key] = loop.call_later(delay_seconds, self._go_off, key)

    def cancel(self, key: Key) -> None:
        """Let ``key`` not ring."""
        handle = self._handles.pop(key, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Let nothing ring."""
        for key in tuple(self._handles):
            self.cancel(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._handles

    def _go_off(self, key: Key) -> None:
        del self._handles[key]
        self._ring(key)
