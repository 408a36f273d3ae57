"""What ``docker-compose.yml`` says, run as processes: commands, environment and health checks.

There are no containers here. So the path of a volume becomes a folder, the name of a service and
its own loopback become an address of its own, and programs become the ones of this checkout.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import yaml
from everstep_bus.nats.server import executable
from support.manifests import ROOT, Object
from support.polling import eventually

HEALTHY_SECONDS = 60.0
STOP_SECONDS = 10.0
FETCH = "import sys; from urllib.request import urlopen; urlopen(sys.argv[1])"
PASSED_ON = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV")
API_PORT = "8001"
"""The simulated API server listens on 127.0.0.1 whoever asks, so here its port has to differ."""


def compose() -> Object:
    """The file."""
    found: Object = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return found


class Composition:
    """The file's services as processes, at ``addresses`` (127.x.y) and a number of each."""

    def __init__(self, folder: Path, addresses: str, api_port: int) -> None:
        self._folder = folder
        self._api_port = str(api_port)
        self._services: Object = compose()["services"]
        numbers = {name: f"{addresses}.{1 + n}" for n, name in enumerate(self._services)}
        self._addresses = {name: numbers[self._network_of(name)] for name in numbers}
        self._processes: list[asyncio.subprocess.Process] = []

    async def start(self) -> None:
        """Start each service once what it depends on is healthy, or has completed."""
        started: set[str] = set()
        while len(started) < len(self._services):
            ready = [
                name
                for name, one in self._services.items()
                if name not in started and one.get("depends_on", {}).keys() <= started
            ]
            assert ready, "services depend on one another in a circle"
            await asyncio.gather(*map(self._start, ready))
            started.update(ready)

    async def close(self) -> None:
        """Stop all of them."""
        for process in reversed(self._processes):
            if process.returncode is None:
                process.terminate()
        for process in self._processes:
            try:
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()

    def volume(self, name: str) -> Path:
        """The folder in a volume's place."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def address(self, name: str) -> str:
        """Where a service listens."""
        return self._addresses[name]

    def log(self, name: str) -> str:
        """What its processes have said."""
        path = self._folder / f"{name}.log"
        return path.read_text() if path.exists() else ""

    async def eventually(
        self, name: str, condition: Callable[[], Awaitable[bool]], within_seconds: float
    ) -> None:
        """Wait for what a service brings about; fails with what it has said."""
        try:
            await eventually(condition, within_seconds=within_seconds)
        except AssertionError:
            raise AssertionError(f"{name}: {self.log(name)}") from None

    async def _start(self, name: str) -> None:
        one = self._services[name]
        replicas = one.get("deploy", {}).get("replicas", 1)
        processes = [await self._spawn(name, one["command"]) for _ in range(replicas)]
        self._processes += processes
        conditions = {
            waiting["depends_on"][name]["condition"]
            for waiting in self._services.values()
            if name in waiting.get("depends_on", {})
        }
        if "service_completed_successfully" in conditions:
            assert await processes[0].wait() == 0, self.log(name)
        elif "healthcheck" in one:
            await self.eventually(name, lambda: self._is_healthy(name), HEALTHY_SECONDS)

    async def _is_healthy(self, name: str) -> bool:
        kind, *command = self._services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        process = await self._spawn(name, command)
        return await process.wait() == 0

    async def _spawn(self, name: str, command: list[str]) -> asyncio.subprocess.Process:
        one = self._services[name]
        program, *arguments = [self._here(name, word) for word in command]
        env = {key: self._here(name, value) for key, value in one.get("environment", {}).items()}
        if "EVERSTEP_NATS_SEED_PATH" in env and "everstep" not in command:
            env["EVERSTEP_METRICS_HOST"] = self._addresses[name]
        foreign = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        with (self._folder / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *_program(program, arguments),
                env={**foreign, **env},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _here(self, name: str, text: str) -> str:
        """A text of a service's, with folders and addresses of this machine."""
        for mount in self._services[name].get("volumes", ()):
            volume, path, *_ = mount.split(":")
            text = text.replace(path, str(self.volume(volume)))
        text = text.replace("/opt/everstep/examples", str(ROOT / "trainer" / "examples"))
        if API_PORT in text:
            return text.replace(API_PORT, self._api_port)
        text = text.replace("127.0.0.1", self._addresses[name])
        server = self._addresses["nats"]
        return text.replace("//nats:", f"//{server}:").replace("=0.0.0.0", f"={server}")

    def _network_of(self, name: str) -> str:
        mode = str(self._services[name].get("network_mode", ""))
        return mode.removeprefix("service:") or name


def _program(name: str, arguments: list[str]) -> list[str]:
    match name:
        case "python":
            return [sys.executable, *arguments]
        case "nats-server":
            return [executable(), *arguments]
        case "everstep":
            return [str(Path(sys.executable).with_name("everstep")), *arguments]
        case "wget":
            return [sys.executable, "-c", FETCH, arguments[-1]]
        case _:
            raise ValueError(f"no {name} here")
