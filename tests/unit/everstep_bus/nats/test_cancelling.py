"""Cancellations that are swallowed below us come up all the same."""

import asyncio

import pytest
from everstep_bus.nats.cancelling import cancellable


async def swallow() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return


async def test_a_swallowed_cancellation_is_raised_at_the_end_of_the_block() -> None:
    async def work() -> None:
        with cancellable():
            await swallow()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_timeout_inside_is_no_cancellation_of_the_task() -> None:
    with cancellable(), pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
