"""The indexer's connection and storage, and those of whoever speaks to it."""

from pathlib import Path

import pytest
from everstep_bus.interface import Bus
from everstep_checkpoint.storage import Storage
from support.bus_worlds import BusWorld
from support.jobs import JOB


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(tmp_path)


@pytest.fixture
async def bus(world: BusWorld) -> Bus:
    return await world.service("checkpoint_indexer")


@pytest.fixture
async def agent(world: BusWorld) -> Bus:
    return await world.agent(JOB, "worker-0-1")


@pytest.fixture
async def person(world: BusWorld) -> Bus:
    return await world.service("operator")
