"""Services as real processes, each with its own credentials and a metrics port of its own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from everstep_bus.nats.credentials import role_seed_path, system_seed_path
from everstep_contract.clients import Role


class ServiceProcess:
    """One service's process and what it has logged so far."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def lines(self) -> list[dict[str, Any]]:
        """What it logged: one JSON object a line."""
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    @property
    def text(self) -> str:
        """What it wrote on stderr, as it is."""
        return self._log.read_text()

    @property
    def metrics_port(self) -> int | None:
        """The port it announced."""
        served = [line for line in self.lines() if line["event"] == "metrics served"]
        return served[0]["port"] if served else None

    async def get(self, path: str) -> str:
        """One answer of its HTTP port; empty while it has none."""
        if self.metrics_port is None:
            return ""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.metrics_port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        answer = (await reader.read()).decode()
        writer.close()
        return answer

    async def is_ready(self) -> bool:
        """Whether it says that it is consuming."""
        return "200 OK" in await self.get("/readyz")

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Its exit status, once it has ended."""
        async with asyncio.timeout(20):
            return await self._process.wait()

    async def close(self) -> None:
        """Kill it if it still lives."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


def settings_of(role: Role, url: str, credentials: Path) -> dict[str, str]:
    """The variables a service needs to reach a server of ours."""
    settings = {
        "EVERSTEP_NATS_URL": url,
        "EVERSTEP_NATS_SEED_PATH": str(role_seed_path(credentials, role)),
        "EVERSTEP_METRICS_PORT": "0",
    }
    if role == "node_watcher":
        settings["EVERSTEP_NATS_SYSTEM_SEED_PATH"] = str(system_seed_path(credentials))
        settings["EVERSTEP_NATS_CANARY_SEED_PATH"] = str(role_seed_path(credentials, "canary"))
    if role == "checkpoint_indexer":
        settings["EVERSTEP_CHECKPOINT_ROOT"] = str(credentials.parent)
    return settings


@asynccontextmanager
async def service_process(
    role: Role, settings: Mapping[str, str], log: Path
) -> AsyncIterator[ServiceProcess]:
    """A service's process while the context is open; its stderr goes to ``log``."""
    foreign = {name: value for name, value in os.environ.items() if "EVERSTEP_" not in name}
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", f"everstep_{role}"),
            env={**foreign, **settings},
            stderr=stderr,
        )
    service = ServiceProcess(process, log)
    try:
        yield service
    finally:
        await service.close()
