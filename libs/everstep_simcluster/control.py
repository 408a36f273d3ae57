"""Pages beside the API for whoever drives the cluster from elsewhere: state, faults, audit."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from aiohttp import web

from everstep_simcluster.errors import FaultNotPossibleError
from everstep_simcluster.faults import Faults
from everstep_simcluster.misbehaviour import Drop, Hang, Refuse, Rule
from everstep_simcluster.node_machine import Instant

if TYPE_CHECKING:
    from everstep_simcluster.cluster import Cluster

ROOT = "/everstep-sim"

NODE_FAULTS = (
    "crash", "freeze", "thaw", "power_off", "power_on", "cut_link", "restore_link", "cut_bus",
    "restore_bus", "stop_kubelet", "start_kubelet", "preempt", "relent",
)  # fmt: skip
"""Faults that need nothing but a node's name; ``kill`` also needs ``?pid=``."""

RESTART_DELAY_SECONDS = 0.1
"""Time for the answer to get out: a restart breaks the connection that asked for it as well."""

Handler = Callable[[web.Request], Awaitable[web.Response]]


def control_routes(cluster: "Cluster") -> list[web.RouteDef]:
    """The routes.

    ``GET state``; ``POST faults/FAULT/NODE``, answered with the instant of the fault;
    ``GET audit`` with ``method``, ``path`` and ``user_agent`` to choose; ``POST api/restart``,
    ``api/stop``, ``api/start``, ``api/expire-history``, ``api/blackhole-watches?plural=``,
    ``api/misbehave`` (a rule as JSON) and ``api/behave``.
    """

    async def state(request: web.Request) -> web.Response:
        return web.json_response(describe(cluster))

    async def fault(request: web.Request) -> web.Response:
        name, node = request.match_info["fault"], request.match_info["node"]
        at = await _do(cluster.faults, name, node, request.query.get("pid", ""))
        return web.json_response(asdict(at))

    async def audit(request: web.Request) -> web.Response:
        wanted = {key: request.query.get(key, "") for key in ("method", "path", "user_agent")}
        writes = [asdict(write) for write in cluster.audit.matching(**wanted)]
        return web.json_response([{**w, "at": w["at"].isoformat()} for w in writes])

    async def api(request: web.Request) -> web.Response:
        return web.json_response({"done": await _act_on_api(cluster, request)})

    return [
        web.get(f"{ROOT}/state", state),
        web.get(f"{ROOT}/audit", _checked(audit)),
        web.post(f"{ROOT}/faults/{{fault}}/{{node}}", _checked(fault)),
        web.post(f"{ROOT}/api/{{act}}", _checked(api)),
    ]


@asynccontextmanager
async def control_pages(cluster: "Cluster") -> AsyncIterator[str]:
    """The routes at an address of their own, which stays while the API server is away; its URL."""
    app = web.Application()
    app.add_routes(control_routes(cluster))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def describe(cluster: "Cluster") -> dict[str, Any]:
    """What one has to know to use the cluster: addresses, nodes and their processes."""
    return {
        "url": cluster.url,
        "control_url": cluster.control_url,
        "kubeconfig": str(cluster.kubeconfig_path),
        "folder": str(cluster.folder),
        "bus_address": cluster.bus_address,
        "networks": "namespaces" if cluster.networks else "none",
        "why_no_networks": cluster.why_no_networks,
        "nodes": [
            {
                "name": machine.name,
                "address": machine.address,
                "netns": machine.netns,
                "powered": machine.powered,
                "link_up": machine.link_up,
                "frozen": machine.frozen,
                "kubelet_up": machine.kubelet_up,
                "pids": sorted(machine.processes()),
            }
            for machine in cluster.machines.values()
        ],
    }


def _checked(handler: Handler) -> Handler:
    """``handler`` with a wrong request answered by 400 and the reason."""

    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except (FaultNotPossibleError, ValueError, KeyError, re.error) as error:
            return web.json_response({"error": str(error)}, status=400)

    return answer


async def _do(faults: Faults, name: str, node: str, pid: str) -> Instant:
    if name == "kill":
        return faults.kill(node, int(pid))
    if name not in NODE_FAULTS:
        known = ", ".join((*NODE_FAULTS, "kill"))
        raise FaultNotPossibleError(f"no fault {name!r}; there are {known}")
    if name == "power_off":
        return await faults.power_off(node)
    at: Instant = getattr(faults, name)(node)
    return at


async def _act_on_api(cluster: "Cluster", request: web.Request) -> str:
    act = request.match_info["act"]
    match act:
        case "restart":
            loop = asyncio.get_running_loop()
            loop.call_later(RESTART_DELAY_SECONDS, cluster.restart_api)
        case "stop":
            if request.url.port == cluster.api.port:
                raise FaultNotPossibleError("stop: ask at control_url, which does not go away")
            await cluster.api.kill()
        case "start":
            if cluster.api.is_serving:
                raise FaultNotPossibleError("start: the API server runs")
            await cluster.api.come_back()
        case "expire-history":
            cluster.api.expire_history()
        case "blackhole-watches":
            cluster.api.blackhole_watches(plural=request.query.get("plural", ""))
        case "misbehave":
            cluster.api.misbehaviour.add(_rule(await request.json()))
        case "behave":
            cluster.api.misbehaviour.clear()
        case _:
            raise FaultNotPossibleError(f"no such act: {act!r}")
    return act


def _rule(body: dict[str, Any]) -> Rule:
    kinds = {"refuse": Refuse, "hang": Hang, "drop": Drop}
    act = dict(body.pop("act"))
    return Rule(act=kinds[act.pop("kind")](**act), **body)
