"""How a command reaches the bus, and one event loop to do it in."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import role_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_contract.clients import service_client_name
from everstep_runtime.logs import configure_logs
from everstep_runtime.settings import server_urls, without_credentials

from everstep_cli.errors import CommandError, MisuseError
from everstep_cli.options import Access

T = TypeVar("T")

CONNECT_SECONDS: Final = 10.0
ASK_SECONDS: Final = 2.0
"""How long a service may take to answer a person."""


def with_bus(use: Callable[[Bus], Awaitable[T]], access: Access) -> T:
    """Connect as an operator, and run ``use``.

    Raises:
        MisuseError: There is no such bus, or nothing is kept in that store.
        CommandError: No server answers.
    """
    quiet_logs()
    if access.store is None:
        return asyncio.run(_connected(use, access.nats_url, access.credentials))
    credentials = access.store / "credentials"
    seed = role_seed_path(credentials, "operator")
    if not seed.exists():  # a server would start there, and leave an empty bus and new seeds
        raise MisuseError(f"--store {access.store}: no drill was kept there")
    server = NatsServer(ServerSettings(access.store / "nats", credentials))
    server.start()
    try:
        return asyncio.run(_connected(use, server.url, seed))
    finally:
        server.stop()


def quiet_logs() -> None:
    """Keep what libraries log about a lost connection from people; errors say it in a line."""
    configure_logs("cli", instance=str(os.getpid()), level="critical")


async def _connected(
    use: Callable[[Bus], Awaitable[T]], nats_url: str, credentials: Path | None
) -> T:
    name = service_client_name("operator", f"cli-{os.getpid()}")
    try:
        urls = server_urls(nats_url)
    except ValueError as error:
        raise MisuseError(f"--nats-url {error}") from None
    try:
        async with asyncio.timeout(CONNECT_SECONDS) as waiting:
            async with connect(urls, name, seed_path=credentials) as bus:
                waiting.reschedule(None)
                return await use(bus)
    except TimeoutError:
        raise CommandError(
            f"no NATS server answers at {without_credentials(nats_url)}; --nats-url names another,"
            " --store reads what a drill kept"
        ) from None
