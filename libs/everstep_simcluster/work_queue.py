"""How a controller works: keys that need a look, each looked at once however often it was named."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class WorkQueue(Generic[Key]):
    """Keys waiting for ``reconcile``, which must not wait for anything.

    Bounded by the number of objects there are: a key that is already waiting is not added again.
    One that ``reconcile`` names itself is looked at after the others.

    Args:
        reconcile: Looks at one key.
        pause_seconds: Between being told and working, in which more keys may come.
    """

    def __init__(self, reconcile: Callable[[Key], None], *, pause_seconds: float = 0.0) -> None:
        self._reconcile = reconcile
        self._pause_seconds = pause_seconds
        self._waiting: dict[Key, None] = {}
        self._wake = asyncio.Event()

    def add(self, key: Key) -> None:
        """Have ``key`` looked at soon."""
        self._waiting[key] = None
        self._wake.set()

    def work_off(self) -> None:
        """Look at everything that waits, and at what that brings up."""
        while self._waiting:
            key = next(iter(self._waiting))
            del self._waiting[key]
            self._reconcile(key)

    async def run(self) -> None:
        """Work for ever; the task is cancelled to stop."""
        while True:
            await self._wake.wait()
            if self._pause_seconds:
                await asyncio.sleep(self._pause_seconds)
            self._wake.clear()
            self.work_off()
