"""The simulated cluster as the drill sees it: its API for what users do, its control pages."""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from everstep_cli.errors import CommandError

TIMEOUT: Final = aiohttp.ClientTimeout(total=20)
PODS: Final = "api/v1/namespaces/{namespace}/pods"
PAGES: Final = "everstep-sim"
JOBS: Final = "apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"

Object = dict[str, Any]


@dataclass(frozen=True)
class Node:
    """A simulated node, and the processes on it now."""

    name: str
    address: str
    pids: frozenset[int]


class ClusterClient:
    """One HTTP session with the cluster: its API at ``url``, its pages at ``control_url``."""

    def __init__(self, url: str, control_url: str) -> None:
        self._url = url
        self._control_url = control_url
        self._session = aiohttp.ClientSession(timeout=TIMEOUT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def create_job(self, manifest: dict[str, Any]) -> None:
        """Submit a Volcano Job."""
        namespace = manifest["metadata"]["namespace"]
        await self._ask("POST", JOBS.format(namespace=namespace), manifest)

    async def cordon(self, node: str, *, cordoned: bool) -> None:
        """Forbid new pods on a node, or allow them again, as an operator would."""
        await self._ask("PATCH", f"api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned}})

    async def ended_pod(self, namespace: str) -> str | None:
        """A pod of which every container has ended, with its last line; None if all run."""
        pods = await self._ask("GET", PODS.format(namespace=namespace))
        ended = [pod for pod in pods["items"] if pod["status"]["phase"] in ("Failed", "Succeeded")]
        if not ended:
            return None
        name = ended[0]["metadata"]["name"]
        log = await self._text("GET", f"{PODS.format(namespace=namespace)}/{name}/log", None)
        last = (log.strip().splitlines() or ["nothing"])[-1]
        return f"{name} ended ({ended[0]['status']['phase']}); it said last: {last}"

    async def force_delete_pods(self, namespace: str) -> None:
        """Delete all pods without grace, as who wants them started anew elsewhere does."""
        pods = await self._ask("GET", PODS.format(namespace=namespace))
        for pod in pods["items"]:
            path = f"{PODS.format(namespace=namespace)}/{pod['metadata']['name']}"
            await self._ask("DELETE", f"{path}?gracePeriodSeconds=0")

    async def delete_pod(self, namespace: str, name: str) -> None:
        """Delete a pod with its own grace, as a person does."""
        await self._ask("DELETE", f"{PODS.format(namespace=namespace)}/{name}")

    async def job(self, namespace: str, name: str) -> Object:
        """A Volcano Job as it is."""
        return await self._ask("GET", f"{JOBS.format(namespace=namespace)}/{name}")

    async def pods(self, namespace: str) -> list[Object]:
        """The pods of a namespace as they are."""
        found: list[Object] = (await self._ask("GET", PODS.format(namespace=namespace)))["items"]
        return found

    async def node_objects(self) -> list[Object]:
        """The nodes as Kubernetes knows them."""
        found: list[Object] = (await self._ask("GET", "api/v1/nodes"))["items"]
        return found

    async def audit(self) -> list[Object]:
        """Every write that the API server was asked for, oldest first."""
        found: list[Object] = json.loads(await self._text("GET", f"{PAGES}/audit", None))
        return found

    async def stop_api(self) -> None:
        """Have the API server go away; the pages stay."""
        await self._ask("POST", f"{PAGES}/api/stop")

    async def start_api(self) -> None:
        """Have it come back."""
        await self._ask("POST", f"{PAGES}/api/start")

    async def nodes(self) -> dict[str, Node]:
        """All nodes by name."""
        state = await self._ask("GET", f"{PAGES}/state")
        return {
            node["name"]: Node(node["name"], node["address"], frozenset(node["pids"]))
            for node in state["nodes"]
        }

    async def fault(self, name: str, node: str, *, pid: int | None = None) -> float:
        """Do something to a node. Returns the instant, in seconds since the epoch."""
        query = "" if pid is None else f"?pid={pid}"
        done = await self._ask("POST", f"{PAGES}/faults/{name}/{node}{query}")
        return float(done["unix_seconds"])

    async def everywhere(self, name: str, nodes: Iterable[str]) -> list[float]:
        """Do something to several nodes at once. Returns the instants."""
        return await asyncio.gather(*(self.fault(name, node) for node in nodes))

    async def _ask(self, method: str, path: str, body: object = None) -> Object:
        answer: Object = json.loads(await self._text(method, path, body))
        return answer

    async def _text(self, method: str, path: str, body: object) -> str:
        headers = {"Content-Type": "application/json"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        data = None if body is None else json.dumps(body)
        base = self._control_url if path.startswith(PAGES) else self._url
        try:
            async with self._session.request(
                method, f"{base}/{path}", data=data, headers=headers
            ) as response:
                text = await response.text()
                if not response.ok:
                    raise CommandError(f"{method} {path}: {response.status} {text[:200]}")
                return text
        except (TimeoutError, aiohttp.ClientError) as error:
            raise CommandError(f"the simulated cluster does not answer: {error}") from error
