"""How a command reaches the bus: which server, as whom; and one event loop to do it in."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import role_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_contract.clients import service_client_name
from everstep_runtime.settings import server_urls, without_credentials

from everstep_cli.errors import CommandError, MisuseError

T = TypeVar("T")

NatsUrl = Annotated[
    str, typer.Option("--nats-url", envvar="EVERSTEP_NATS_URL", help="Where the bus is.")
]
Credentials = Annotated[
    Path | None,
    typer.Option(
        "--credentials",
        envvar="EVERSTEP_NATS_SEED_PATH",
        exists=True,
        dir_okay=False,
        help="File with the operator's nkey seed.",
    ),
]
Store = Annotated[
    Path | None,
    typer.Option(
        "--store",
        exists=True,
        file_okay=False,
        help="Read what `everstep drill --keep` kept in this folder, instead of a running bus.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
DEFAULT_NATS_URL = "nats://127.0.0.1:4222"
CONNECT_SECONDS = 10.0
ASK_SECONDS = 2.0
"""How long a service may take to answer a person."""


@dataclass(frozen=True)
class Access:
    """Which bus, and as whom; ``store`` goes before both."""

    nats_url: str
    credentials: Path | None
    store: Path | None


def with_bus(use: Callable[[Bus], Awaitable[T]], access: Access) -> T:
    """Connect as an operator, and run ``use``."""
    if access.store is None:
        return asyncio.run(_connected(use, access.nats_url, access.credentials))
    credentials = access.store / "credentials"
    server = NatsServer(ServerSettings(access.store / "nats", credentials))
    server.start()
    try:
        seed = role_seed_path(credentials, "operator")
        return asyncio.run(_connected(use, server.url, seed))
    finally:
        server.stop()


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
        raise CommandError(f"no NATS server answers at {without_credentials(nats_url)}") from None
