"""A watch ends when its client goes away, whatever happens in the same moment."""

import asyncio

import pytest
from everstep_simcluster.resources import PODS
from everstep_simcluster.store import Store
from everstep_simcluster.watching import Watch, WatchRequest


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_that_meets_an_event_is_not_lost(turns: int) -> None:
    watch = Watch(Store(), PODS, WatchRequest(resource_version="1"))

    async def read() -> None:
        async for _ in watch.lines():
            pass

    reading = asyncio.create_task(read())
    for _ in range(5):
        await asyncio.sleep(0)
    watch.blackhole()
    for _ in range(turns):
        await asyncio.sleep(0)
    reading.cancel()
    done, _ = await asyncio.wait({reading}, timeout=5)
    assert done
