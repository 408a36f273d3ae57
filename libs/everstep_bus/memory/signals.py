"""Wake whoever waits for a change of something."""

import asyncio


class Changed:
    """Something that changes now and then."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all who wait now; who comes later waits for the next change."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for the next change, at most so long; False if there was none."""
        event = self._event
        try:
            async with asyncio.timeout(timeout_seconds):
                await event.wait()
        except TimeoutError:
            return False
        return True
