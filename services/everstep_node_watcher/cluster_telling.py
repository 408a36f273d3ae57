"""When an object's news is told: at once, or once it has held still, but always its last state.

A condition that flaps, or a container that crashes in a loop, makes one fact a while. Neither does
the list of a large cluster flood the bus: what finds no room waits, and is told as it is then.
"""

from dataclasses import dataclass

from everstep_node_watcher.cluster_facts import Essence, essence, is_urgent, key_of
from everstep_node_watcher.cluster_view import State


@dataclass(frozen=True, slots=True)
class Told:
    """The last that was told of an object, and when (monotonic)."""

    essence: Essence | None
    at: float


class Telling:
    """What is yet to be told. Objects that nothing new was told of lately take no room here."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._told: dict[str, Told] = {}
        self._due: dict[str, None] = {}

    def news(self, before: State | None, state: State, now: float, *, room: bool) -> bool:
        """Whether to tell of this state now; otherwise it may be `due` later."""
        key = key_of(state)
        told = self._told.get(key)
        if told is None:  # what was told is what it was before
            told = Told(essence(before) if before is not None else None, float("-inf"))
        if told.essence == essence(state):
            self._due.pop(key, None)
            return False
        waits = now - told.at < self._pause_seconds
        if is_urgent(before, state) or (room and not waits):
            self._tell(key, state, now)
            return True
        self._told[key] = told
        self._due[key] = None
        return False

    @property
    def remembered(self) -> int:
        """Of how many objects it is known what was told."""
        return len(self._told)

    def forget(self, key: str) -> None:
        """The object is gone, and that was told."""
        self._told.pop(key, None)
        self._due.pop(key, None)

    def due(self, now: float, limit: int) -> tuple[str, ...]:
        """Keys of objects that have waited for long enough, the oldest news first."""
        ready = (key for key in self._due if now - self._told[key].at >= self._pause_seconds)
        return tuple(key for _, key in zip(range(limit), ready, strict=False))

    def tidy(self, now: float) -> None:
        """Forget what was told of objects that have been quiet since."""
        idle = [
            key
            for key, told in self._told.items()
            if key not in self._due and now - told.at >= self._pause_seconds
        ]
        for key in idle:
            del self._told[key]

    def is_news(self, state: State, now: float) -> bool:
        """Whether the last state of a due object differs from what was told; it is told then."""
        key = key_of(state)
        told = self._told[key]
        self._due.pop(key, None)
        if told.essence == essence(state):
            return False
        self._tell(key, state, now)
        return True

    def _tell(self, key: str, state: State, now: float) -> None:
        self._due.pop(key, None)
        self._told[key] = Told(essence(state), now)
