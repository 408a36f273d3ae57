"""Work that runs beside a block of code and ends with it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from everstep_bus.cancelling import cancellable
from everstep_bus.errors import TransientBusError


@asynccontextmanager
async def background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run ``work`` while the block runs; whichever fails first ends the other and is raised."""
    with cancellable(over=TransientBusError):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one) for one in work]
                try:
                    yield
                finally:
                    for task in tasks:
                        task.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
