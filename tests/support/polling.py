"""Wait for a condition with a bound, instead of sleeping and hoping."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from everstep_bus.background import background

T = TypeVar("T")


async def eventually(
    condition: Callable[[], Any], *, within_seconds: float = 20, what: str = ""
) -> None:
    """Wait until ``condition`` (which may be async) is truthy; fails after ``within_seconds``."""
    deadline = time.monotonic() + within_seconds
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return
        assert time.monotonic() < deadline, what or f"did not happen within {within_seconds} s"
        await asyncio.sleep(0.01)


@asynccontextmanager
async def collected(source: AsyncIterator[T]) -> AsyncIterator[list[T]]:
    """A list that fills with what ``source`` yields while the context is open."""
    found: list[T] = []

    async def collect() -> None:
        async for one in source:
            found.append(one)  # noqa: PERF401  # a comprehension would show nothing until the end

    async with background(collect()):
        yield found
