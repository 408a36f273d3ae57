"""Where the long-lived tasks of a cluster live: one task group, closed as a whole."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self


class _CloseRequested(Exception):  # noqa: N818 - an order, not an error
    """Ends the group from inside."""


class TaskHome:
    """A task group that can be entered in one task and left in another.

    An error in any task cancels the others and is raised, in a group, by :meth:`failed` and when
    the home is left.
    """

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._home: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._home = asyncio.create_task(self._hold())
        await self._opened.wait()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._closing.set()
        await self.failed()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that is cancelled when the home is left."""
        return self._group.create_task(work)

    async def failed(self) -> None:
        """Wait for the end; raises the error of a task as soon as there is one."""
        if self._home is not None:
            await asyncio.shield(self._home)

    async def _hold(self) -> None:
        try:
            async with self._group:
                self._opened.set()
                await self._closing.wait()
                raise _CloseRequested
        except* _CloseRequested:
            pass
