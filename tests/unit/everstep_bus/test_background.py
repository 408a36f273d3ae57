"""Work beside a block."""

import asyncio

import pytest
from everstep_bus.background import background
from everstep_bus.errors import TransientBusError


async def for_ever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("the work")


async def test_the_work_ends_with_the_block() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await for_ever()
        finally:
            ended.set()

    async with background(work()):
        await asyncio.sleep(0)
    assert ended.is_set()


async def test_the_block_ends_with_the_works_own_failure() -> None:
    with pytest.raises(ValueError, match="the work"):
        async with background(for_ever(), fail()):
            await for_ever()


async def test_a_failure_of_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError):
        async with background(for_ever()):
            raise KeyError("the block")


async def test_a_cancelled_block_is_cancelled() -> None:
    async def block() -> None:
        async with background(for_ever()):
            await for_ever()

    task = asyncio.create_task(block())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def cancelled_while_its_work_fails(error: Exception) -> None:
    begun, failing = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        begun.set()
        await failing.wait()
        raise error

    async def block() -> None:
        async with background(work()):
            await for_ever()

    task = asyncio.create_task(block())
    await begun.wait()
    failing.set()
    task.cancel()
    await task


async def test_a_block_is_cancelled_though_its_work_fails_for_now_at_that_moment() -> None:
    with pytest.raises(asyncio.CancelledError):
        await cancelled_while_its_work_fails(TransientBusError("lost"))


async def test_a_failure_for_good_is_not_lost_in_a_cancellation() -> None:
    with pytest.raises(ValueError, match="the work"):
        await cancelled_while_its_work_fails(ValueError("the work"))
