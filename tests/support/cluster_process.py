"""A simulated cluster as a process of its own, and a person with `kubectl` at its API."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

START_SECONDS = 60


@dataclass(frozen=True)
class ClusterProcess:
    """``ready`` is its ready line. Objects are plain JSON."""

    ready: dict[str, Any]
    session: aiohttp.ClientSession

    async def get(self, path: str) -> Any:
        """An object or a list."""
        return await self._ask("GET", f"{self.ready['url']}/{path}")

    async def create(self, path: str, body: dict[str, Any]) -> Any:
        """Create an object below ``path``."""
        return await self._ask("POST", f"{self.ready['url']}/{path}", body)

    async def fault(self, name: str, node: str) -> float:
        """Do something to a node; the instant, in seconds since the epoch."""
        return float((await self.control(f"faults/{name}/{node}"))["unix_seconds"])

    async def control(self, page: str, body: dict[str, Any] | None = None) -> Any:
        """Use a page that stays when the API server goes."""
        return await self._ask("POST", f"{self.ready['control_url']}/everstep-sim/{page}", body)

    async def written(self, user_agent: str, **chosen: str) -> list[dict[str, Any]]:
        """The writes that somebody asked for, by the API server's own record."""
        query = "&".join(f"{key}={value}" for key, value in chosen.items())
        page = f"everstep-sim/audit?user_agent={user_agent}&{query}"
        found: list[dict[str, Any]] = await self._ask("GET", f"{self.ready['control_url']}/{page}")
        return found

    async def _ask(self, method: str, url: str, body: dict[str, Any] | None = None) -> Any:
        async with self.session.request(method, url, json=body) as response:
            assert response.ok, f"{method} {url}: {response.status} {await response.text()}"
            return await response.json()


@asynccontextmanager
async def cluster_process(*flags: str) -> AsyncIterator[ClusterProcess]:
    """The cluster while the context is open."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "everstep_simcluster", "--until-stdin-ends", *flags),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), START_SECONDS)
        async with aiohttp.ClientSession() as session:
            yield ClusterProcess(json.loads(line), session)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
