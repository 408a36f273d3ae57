"""Cancellations that are swallowed below us come up all the same."""

import asyncio

import pytest
from everstep_bus.cancelling import cancellable


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


async def fail_if_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise ConnectionError("lost") from None


async def test_a_cancellation_whose_place_an_error_took_is_raised_in_its_place() -> None:
    async def work() -> None:
        with cancellable():
            await fail_if_cancelled()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_without_a_cancellation_comes_out_as_it_is() -> None:
    with pytest.raises(ConnectionError), cancellable():
        raise ConnectionError("lost")
