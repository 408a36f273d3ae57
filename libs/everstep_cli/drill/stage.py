"""All that a drill runs: nats-server, a simulated cluster, the services, one training job."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, assert_never
from urllib.parse import urlsplit

from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.config import ServerSettings
from everstep_bus.nats.credentials import agent_seed_path, role_seed_path, system_seed_path
from everstep_bus.nats.server import NatsServer
from everstep_contract.clients import service_client_name

from everstep_cli.drill.actions import ServiceName
from everstep_cli.drill.cluster import ClusterClient
from everstep_cli.drill.manifest import JOB, Gang, job_manifest
from everstep_cli.drill.processes import MARK_VARIABLE, Processes, Program, favour, log_tail
from everstep_cli.drill.tripwire import Tripwire, Wire
from everstep_cli.errors import CommandError
from everstep_cli.waiting import seen

SERVICES: Final[tuple[ServiceName, ...]] = (
    "node_watcher",
    "adjudicator",
    "rescaler",
    "checkpoint_indexer",
)
HASTY: Final[dict[ServiceName, dict[str, str]]] = {
    "node_watcher": {"EVERSTEP_NOT_READY_SECONDS": "2"},
    "adjudicator": {"EVERSTEP_SELF_FENCE_SECONDS": "8"},
    "rescaler": {
        "EVERSTEP_QUARANTINE_SILENCE_SECONDS": "4",
        "EVERSTEP_FENCE_MARGIN_SECONDS": "2",
        "EVERSTEP_WELL_SECONDS": "4",
    },
    "checkpoint_indexer": {},
}
"""What is done to a cluster after minutes is done after seconds, where a drill waits for it."""
CHECKPOINTS: Final = "checkpoints"
"""Below the drill's folder: where the job's checkpoints lie, for members and indexer alike."""
READY_SECONDS: Final = 120.0
"""How long a process may take to say that it is ready; the template imports torch."""


@dataclass(frozen=True)
class Setting:
    """What a fault needs of the stage.

    tripped: the service that dies in mid-sentence. spares: nodes beside the members' own. hasty:
    whether the cluster is written to as soon as that can be right.
    """

    tripped: ServiceName | None = None
    spares: int = 0
    hasty: bool = False


class Stage:
    """Set up when entered, except the processes' end: that is `Processes.stop_all`'s."""

    def __init__(self, folder: Path, processes: Processes, gang: Gang, setting: Setting) -> None:
        self._folder = folder
        self._processes = processes
        self._gang = gang
        self._stack = AsyncExitStack()
        self._setting = setting
        self._wire: Tripwire
        self._restarts: set[asyncio.Task[None]] = set()
        self._server: NatsServer
        self.cluster: ClusterClient
        self.networks = False
        """Whether nodes have networks of their own, so that links can be cut."""
        self.workers = folder / "workers"
        """Where the workers write down their steps."""
        self.checkpoints = folder / CHECKPOINTS

    async def __aenter__(self) -> Self:
        try:
            await self._set_up()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    @asynccontextmanager
    async def bus(self) -> AsyncIterator[Bus]:
        """A connection as an operator."""
        seed = role_seed_path(self._credentials, "operator")
        name = service_client_name("operator", "drill")
        async with connect((self._server.url,), name, seed_path=seed) as bus:
            yield bus

    def stop_bus(self) -> None:
        """Kill nats-server, as a lost machine does."""
        self._server.kill()

    def start_bus(self) -> None:
        """Start nats-server, on its port and store if it had any."""
        self._server.start()
        favour(self._server.pid)

    def arm(self, service: ServiceName, wire: Wire) -> None:
        """Let the service die at its next sentence that matches, and start it again.

        Only the service that was named at the start talks through the wire.
        """
        self._wire.arm(wire, lambda: self._processes.kill_now(service))
        again = asyncio.create_task(self._start_again(service))
        self._restarts.add(again)
        again.add_done_callback(self._restarts.discard)

    async def _start_again(self, service: ServiceName) -> None:
        await self._wire.tripped.wait()
        await self._processes.kill(service)
        await self._start_service(service)

    def require_all(self) -> None:
        """Make sure that everything still runs.

        Raises:
            CommandError: Something has ended; with its last words.
        """
        for name in ("template", "cluster", *SERVICES):
            self._require(name)

    async def require_members(self) -> None:
        """Make sure that no member has ended by itself.

        Raises:
            CommandError: One has; with its last words.
        """
        ended = await self.cluster.ended_pod(JOB.namespace)
        if ended is not None:
            raise CommandError(ended)

    def _require(self, name: str) -> None:
        ended = self._processes.ended(name)
        if ended is not None:
            why = log_tail(self._processes.folder, name, 1)
            raise CommandError(f"{name} ended with status {ended}: {why}")

    @property
    def _credentials(self) -> Path:
        return self._folder / "credentials"

    async def _set_up(self) -> None:
        socket = self._folder / "template.sock"
        template = (sys.executable, "-m", "everstep_trainer.template", str(socket))
        await self._processes.start(Program("template", template, {}))
        await self._start_cluster(socket)
        for service in SERVICES:
            await self._start_service(service)
        await self._said("template", "ready")
        await self.cluster.create_job(self._job())

    async def _start_cluster(self, socket: Path) -> None:
        nodes = self._gang.members + self._setting.spares
        command = (
            *(sys.executable, "-m", "everstep_simcluster", "--nodes", str(nodes)),
            *("--namespaces", JOB.namespace, "--folder", str(self._folder / "cluster")),
            *("--template-socket", str(socket)),
        )
        await self._processes.start(Program("cluster", command, {}))
        cluster = json.loads(await self._said("cluster", '{"ready"'))
        self.networks = cluster["networks"] == "namespaces"
        self._kubeconfig = cluster["kubeconfig"]
        self.cluster = await self._stack.enter_async_context(
            ClusterClient(cluster["url"], cluster["control_url"])
        )
        settings = ServerSettings(
            directory=self._folder / "nats",
            credentials=self._credentials,
            host=cluster["bus_address"],
            jobs=(JOB,),
        )
        self._server = NatsServer(settings)
        self.start_bus()
        self._stack.callback(self._server.stop)
        address = urlsplit(self._server.url)
        wire = Tripwire(str(address.hostname), address.port or 0)
        self._wire = await self._stack.enter_async_context(wire)

    async def _start_service(self, service: ServiceName) -> None:
        tripped = service == self._setting.tripped
        variables = {
            "EVERSTEP_NATS_URL": self._wire.url if tripped else self._server.url,
            "EVERSTEP_NATS_SEED_PATH": str(role_seed_path(self._credentials, service)),
            "EVERSTEP_METRICS_PORT": "0",
            **self._variables_of(service),
            **(HASTY[service] if self._setting.hasty else {}),
        }
        command = (sys.executable, "-m", f"everstep_{service}")
        favour(await self._processes.start(Program(service, command, variables)))

    def _variables_of(self, service: ServiceName) -> dict[str, str]:
        cluster = {"EVERSTEP_CLUSTER": "kubernetes", "KUBECONFIG": self._kubeconfig}
        match service:
            case "node_watcher":
                canary = role_seed_path(self._credentials, "canary")
                system = system_seed_path(self._credentials)
                return cluster | {
                    "EVERSTEP_NATS_SYSTEM_SEED_PATH": str(system),
                    "EVERSTEP_NATS_CANARY_SEED_PATH": str(canary),
                }
            case "rescaler":
                return cluster | {"EVERSTEP_MODE": "act"}
            case "checkpoint_indexer":
                self.checkpoints.mkdir(exist_ok=True)
                return {"EVERSTEP_CHECKPOINT_ROOT": str(self.checkpoints)}
            case "adjudicator":
                return {}
            case _:
                assert_never(service)

    def _job(self) -> dict[str, Any]:
        variables = {
            "EVERSTEP_NATS_URL": self._server.url,
            "EVERSTEP_NATS_SEED_PATH": str(agent_seed_path(self._credentials, JOB)),
            "EVERSTEP_STEP_LOG": str(self.workers),
            "EVERSTEP_CHECKPOINT_ROOT": str(self.checkpoints),
            MARK_VARIABLE: self._processes.mark,
        }
        return job_manifest(self._gang, variables)

    async def _said(self, name: str, start: str) -> str:
        """The line that a process says when it is ready."""

        def line() -> str | None:
            self._require(name)
            said = log_tail(self._processes.folder, name, 1000).splitlines()
            return next((text for text in said if text.startswith(start)), None)

        found = await seen(line, within_seconds=READY_SECONDS)
        if found is None:
            raise CommandError(f"{name} was not ready within {READY_SECONDS:g} s")
        return found
