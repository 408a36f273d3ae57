"""The bus suite's world on a real nats-server."""

import json
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import nats
import nats.errors
from everstep_bus.interface import Bus
from everstep_bus.nats import NatsBus, NatsServerEvents, connect, connect_server_events
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import (
    agent_seed_path,
    public_key,
    role_seed_path,
    system_seed_path,
)
from everstep_bus.nats.server import NatsServer
from everstep_contract.clients import agent_client_name, service_client_name
from everstep_contract.identity import JobKey
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.errors import NotFoundError
from support.messages import JOB, OTHER_JOB


async def _hush(_: Exception) -> None:
    """A test reads what a client is refused from the calls themselves."""


@dataclass
class NatsWorld:
    """A server of its own, and a client of it that may do everything."""

    directory: Path
    patient: bool = True
    """The server waits long before it calls a client stale: tests share a busy machine."""
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    def __post_init__(self) -> None:
        self._connections: dict[Bus, AsyncExitStack] = {}
        self._root: Client | None = None
        self.credentials = self.directory / "credentials"
        self.server = NatsServer(
            ServerSettings(self.directory / "server", self.credentials, jobs=(JOB, OTHER_JOB))
        )

    async def service(self, role: str = "adjudicator", instance: str = "1") -> NatsBus:
        name = service_client_name(role, instance)  # type: ignore[arg-type]  # a role
        seed = role_seed_path(self.credentials, role)  # type: ignore[arg-type]  # a role
        return await self._connect(name, seed)

    async def agent(self, job: JobKey, incarnation: str) -> NatsBus:
        name = agent_client_name(job, incarnation)
        return await self._connect(name, agent_seed_path(self.credentials, job))

    async def server_events(self, page: int = 1024) -> NatsServerEvents:
        name = service_client_name("node_watcher", "system")
        seed = system_seed_path(self.credentials)
        opened = connect_server_events((self.server.url,), name, seed_path=seed, page=page)
        return await self.stack.enter_async_context(opened)

    async def _connect(self, name: str, seed: Path) -> NatsBus:
        own = await self.stack.enter_async_context(AsyncExitStack())
        bus = await own.enter_async_context(connect((self.server.url,), name, seed_path=seed))
        self._connections[bus] = own
        return bus

    async def disconnect(self, bus: Bus) -> None:
        await self._connections[bus].aclose()

    async def stop(self) -> None:
        self.server.kill()

    async def start(self) -> None:
        self.server.start()
        self._admit_root()

    async def remember(self) -> None:
        await self.stop()
        shutil.copytree(self._store, self.directory / "remembered", dirs_exist_ok=True)
        await self.start()

    async def lose_since(self, stream: str) -> None:
        await self.stop()
        messages = Path(stream) / "msgs"
        shutil.rmtree(self._store / messages)
        shutil.copytree(self.directory / "remembered" / messages, self._store / messages)
        await self.start()

    @property
    def _store(self) -> Path:
        return self.directory / "server" / "jetstream" / "jetstream" / "EVERSTEP" / "streams"

    async def lose_stream(self, name: str) -> None:
        await (await self.root_stream()).delete_stream(name)

    async def lose_durable(self, stream: str, name: str) -> None:
        await (await self.root_stream()).delete_consumer(stream, name)

    async def lose_followers(self, stream: str) -> None:
        root = await self.root_stream()
        if stream == "ORDERS":
            config = (await root.stream_info(stream)).config
            await root.update_stream(config.evolve(republish=None))
        for consumer in await root.consumers_info(stream):
            if consumer.name.startswith("follow-"):
                await root.delete_consumer(stream, consumer.name)

    async def inject(self, subject: str, payload: bytes, headers: dict[str, str]) -> None:
        await (await self.root_stream()).publish(subject, payload, headers=headers)

    async def stored(self, stream: str) -> list[tuple[str, dict[str, str], bytes]]:
        root = await self.root_stream()
        state = (await root.stream_info(stream)).state
        found = []
        for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
            try:
                one = await root.get_msg(stream, sequence)
            except NotFoundError:
                continue
            found.append((str(one.subject), dict(one.headers or {}), one.data or b""))
        return found

    async def root(self) -> Client:
        """A connection that may do everything; closed with the world."""
        client = await nats.connect(
            self.server.url,
            nkeys_seed=str(self._root_seed),
            error_cb=_hush,
            allow_reconnect=False,
            max_reconnect_attempts=1,
        )
        self.stack.push_async_callback(client.close)
        return client

    async def root_stream(self) -> JetStreamContext:
        if self._root is None or self._root.is_closed:
            self._root = await self.root()
        return self._root.jetstream()

    async def close(self) -> None:
        await self.stack.aclose()
        self.server.kill()

    @property
    def _root_seed(self) -> Path:
        return self.directory / "root.nk"

    def _admit_root(self) -> None:
        path = self.directory / "server" / "nats-server.conf"
        config = json.loads(path.read_text())
        config["accounts"]["EVERSTEP"]["users"].append({"nkey": public_key(self._root_seed)})
        if self.patient:
            config["ping_interval"] = "5s"
        path.write_text(json.dumps(config))
        self.server.reload()
