"""Every test of this folder that takes ``world`` runs on the twin and on a real nats-server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.bus_worlds import BusWorld, MemoryWorld


@pytest.fixture(params=["memory"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BusWorld]:
    world = MemoryWorld()
    yield world
    await world.close()
