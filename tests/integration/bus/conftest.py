"""Every test that takes ``world`` runs on the twin and on a real nats-server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.bus_worlds import BusWorld, MemoryWorld
from support.nats_world import NatsWorld


@asynccontextmanager
async def started(world: MemoryWorld | NatsWorld) -> AsyncIterator[None]:
    """The world with its streams made, as a service does that starts."""
    await world.start()
    try:
        await world.service("rescaler", "provisioner")
        yield
    finally:
        await world.close()


@pytest.fixture
async def nats_world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    """A real nats-server alone."""
    world = NatsWorld(tmp_path)
    async with started(world):
        yield world


@pytest.fixture
async def vigilant_world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    """A real nats-server that pings as it does in earnest."""
    world = NatsWorld(tmp_path, patient=False)
    async with started(world):
        yield world


@pytest.fixture(params=["memory", "nats"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[BusWorld]:
    world = MemoryWorld() if request.param == "memory" else NatsWorld(tmp_path)
    async with started(world):
        yield world
