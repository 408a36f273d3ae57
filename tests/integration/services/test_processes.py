"""Services as processes: how they start, become ready, live through outages, and end."""

import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from everstep_contract.clients import Role
from everstep_runtime.service import (
    EXIT_ACCESS_DENIED,
    EXIT_PORT_UNAVAILABLE,
)
from everstep_runtime.settings import EXIT_BAD_SETTINGS
from support.nats_world import NatsWorld
from support.polling import eventually
from support.service_processes import service_process, settings_of

ROLES: tuple[Role, ...] = ("node_watcher", "adjudicator", "rescaler", "checkpoint_indexer")


@pytest.fixture
async def nats(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    world = NatsWorld(tmp_path)
    await world.start()
    yield world
    await world.close()


def settings(world: NatsWorld, role: Role, **changes: str) -> dict[str, str]:
    return {**settings_of(role, world.server.url, world.credentials), **changes}


@pytest.mark.parametrize("role", ROLES)
async def test_a_service_becomes_ready_and_stops_when_told_to(
    nats: NatsWorld, tmp_path: Path, role: Role
) -> None:
    async with service_process(role, settings(nats, role), tmp_path / "log") as service:
        await eventually(service.is_ready)
        assert f"everstep_{role}_" in await service.get("/metrics")
        service.signal(signal.SIGTERM)
        assert await service.ended() == 0
        assert service.lines()[-1]["why"] == "SIGTERM"


async def test_ec38_a_service_is_ready_again_after_an_outage_of_the_server(
    nats: NatsWorld, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    async with service_process("rescaler", settings(nats, "rescaler"), log) as service:
        await eventually(service.is_ready)
        await nats.stop()
        await eventually(lambda: "bus connection lost" in service.text)
        await nats.start()
        await eventually(lambda: service.text.count("bus connected") == 2)
        await eventually(service.is_ready)


async def test_a_service_that_starts_before_the_server_waits_for_it(
    nats: NatsWorld, tmp_path: Path
) -> None:
    await nats.stop()
    log = tmp_path / "log"
    async with service_process("rescaler", settings(nats, "rescaler"), log) as service:
        await eventually(lambda: "bus not reached" in service.text)
        assert "503" in await service.get("/readyz")
        assert "200" in await service.get("/healthz")
        await nats.start()
        await eventually(service.is_ready)


async def test_a_misspelt_variable_ends_the_start_with_one_line(
    nats: NatsWorld, tmp_path: Path
) -> None:
    wrong = settings(nats, "rescaler", EVERSTEP_METRICS_PROT="0")
    async with service_process("rescaler", wrong, tmp_path / "log") as service:
        assert await service.ended() == EXIT_BAD_SETTINGS
        assert service.text == (
            "EVERSTEP_METRICS_PROT='0': no such setting; did you mean EVERSTEP_METRICS_PORT?\n"
        )


async def test_ec67_a_metrics_port_that_is_taken_ends_the_start_and_is_named(
    nats: NatsWorld, tmp_path: Path
) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = str(squatter.getsockname()[1])
        taken = settings(nats, "rescaler", EVERSTEP_METRICS_PORT=port)
        async with service_process("rescaler", taken, tmp_path / "log") as service:
            assert await service.ended() == EXIT_PORT_UNAVAILABLE
            (line,) = service.lines()
            assert port in line["why"]


async def test_credentials_that_the_server_does_not_know_end_the_start(
    nats: NatsWorld, tmp_path: Path
) -> None:
    (tmp_path / "stranger.nk").write_text(
        "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
    )
    wrong = settings(nats, "rescaler", EVERSTEP_NATS_SEED_PATH=str(tmp_path / "stranger.nk"))
    async with service_process("rescaler", wrong, tmp_path / "log") as service:
        assert await service.ended() == EXIT_ACCESS_DENIED
        assert "Traceback" not in service.text


async def test_two_rescalers_share_a_machine_and_one_ends_without_the_other(
    nats: NatsWorld, tmp_path: Path
) -> None:
    one, other = settings(nats, "rescaler"), settings(nats, "rescaler")
    async with (
        service_process("rescaler", one, tmp_path / "one") as first,
        service_process("rescaler", other, tmp_path / "other") as second,
    ):
        await eventually(first.is_ready)
        await eventually(second.is_ready)
        first.signal(signal.SIGINT)
        assert await first.ended() == 0
        assert await second.is_ready()
