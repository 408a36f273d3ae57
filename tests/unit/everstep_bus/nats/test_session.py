"""What a lost connection does to those who wait on it."""

import asyncio

from everstep_bus.counts import BusCounts
from everstep_bus.errors import TransientBusError
from everstep_bus.nats.session import Session
from nats.aio.client import Client

WAITING = 20


class ConnectedClient(Client):
    """A client that reads until told otherwise, from nowhere."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = asyncio.Event()
        self._reading_task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        await self.lost.wait()


async def test_a_lost_connection_ends_every_call_though_one_runs_out_of_time_at_that_moment() -> (
    None
):
    client = ConnectedClient()
    session = Session(client, BusCounts())
    expiring = asyncio.Event()

    async def wait_for_ever() -> None:
        async with session.call("wait", seconds=None):
            await asyncio.Event().wait()

    async def run_out_of_time() -> None:
        async with session.call("ask", seconds=0):
            try:
                await asyncio.Event().wait()
            finally:
                expiring.set()
                await client.lost.wait()
                await asyncio.sleep(0)

    calls = [asyncio.create_task(wait_for_ever()) for _ in range(WAITING)]
    calls.append(asyncio.create_task(run_out_of_time()))
    await expiring.wait()
    client.lost.set()
    async with asyncio.timeout(5):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(one) for one in ended} == {TransientBusError}
