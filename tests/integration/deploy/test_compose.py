"""Every service of ``docker-compose.yml`` runs and is healthy, and its three trainers train."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.credentials import role_seed_path
from everstep_contract.clients import service_client_name
from everstep_contract.layout import JOBS
from support.composition import Composition

TRAINING_SECONDS = 90.0


@pytest.fixture
async def composition(tmp_path: Path) -> AsyncIterator[Composition]:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    composed = Composition(tmp_path, f"127.{1 + os.getpid() % 250}.100", port)
    yield composed
    await composed.close()


@pytest.mark.timeout(240)
async def test_every_service_is_healthy_and_three_members_train(composition: Composition) -> None:
    await composition.start()
    seed = role_seed_path(composition.volume("credentials"), "operator")
    url = f"nats://{composition.address('nats')}:4222"
    async with connect((url,), service_client_name("operator", "test"), seed_path=seed) as bus:
        await composition.eventually("trainer", lambda: members_in_step(bus, 3), TRAINING_SECONDS)


async def members_in_step(bus: Bus, count: int) -> bool:
    entry = await bus.kv(JOBS).get("default.demo")
    record = entry.value if entry else None
    return record is not None and record.phase == "resumed" and len(record.seats) == count
