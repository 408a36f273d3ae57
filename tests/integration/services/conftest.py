"""Every test of this folder that takes ``world`` runs on the twin and on a real nats-server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from support.bus_worlds import BusWorld, MemoryWorld
from support.nats_world import NatsWorld


@pytest.fixture(params=["memory", "nats"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BusWorld]:
    world = MemoryWorld() if request.param == "memory" else NatsWorld(tmp_path)
    await world.start()
    try:
        await world.service("rescaler", "provisioner")
        yield world
    finally:
        await world.close()
