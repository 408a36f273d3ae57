"""Waiting for something in the world, by looking again and again until a bound."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

POLL_SECONDS: Final = 0.05


async def seen(look: Callable[[], T | None], *, within_seconds: float) -> T | None:
    """What ``look`` returns as soon as that is not None; None if it never is."""
    deadline = time.monotonic() + within_seconds
    while (found := look()) is None and time.monotonic() < deadline:  # noqa: ASYNC110  # files and /proc tell nobody
        await asyncio.sleep(POLL_SECONDS)
    return found


async def answered(look: Callable[[], Awaitable[T | None]], *, within_seconds: float) -> T | None:
    """As `seen`, where looking is asking somebody."""
    deadline = time.monotonic() + within_seconds
    while (found := await look()) is None and time.monotonic() < deadline:  # noqa: ASYNC110  # records are asked for, not told
        await asyncio.sleep(POLL_SECONDS)
    return found
