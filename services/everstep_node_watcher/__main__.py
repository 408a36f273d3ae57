"""Reads the settings, connects to what is watched, and hands over to the runtime."""

import asyncio
import importlib
import os
import sys
from pathlib import Path

from everstep_bus.interface import Bus
from everstep_bus.nats import connect, connect_server_events
from everstep_contract.clients import ServiceClient, service_client_name
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from everstep_runtime.service import run_service

from everstep_node_watcher.config import Settings
from everstep_node_watcher.model import Duty
from everstep_node_watcher.service import serve


def main() -> int:
    """Run the node watcher; the process's exit status."""
    settings = Settings.from_env(os.environ)

    async def start(bus: Bus, readiness: Readiness) -> None:
        duty = Duty(settings.policy(), SystemClock(), readiness)
        async with asyncio.TaskGroup() as group:
            group.create_task(_watch_connections(bus, settings, duty))
            for canary, url in zip(settings.canaries, settings.nats_urls, strict=True):
                group.create_task(_sing(canary, url, settings.nats_canary_seed_path))
            if settings.cluster == "kubernetes":
                group.create_task(_watch_cluster(bus, settings, duty))

    return run_service("node_watcher", start, settings)


async def _watch_connections(bus: Bus, settings: Settings, duty: Duty) -> None:
    name = service_client_name("node_watcher", f"{settings.instance}-system")
    seed_path = settings.nats_system_seed_path
    async with connect_server_events(settings.nats_urls, name, seed_path=seed_path) as events:
        await serve(bus, events, duty)


async def _sing(canary: ServiceClient, url: str, seed_path: Path | None) -> None:
    """Be a client of one server and do nothing, until cancelled."""
    name = service_client_name(canary.role, canary.instance)
    async with connect((url,), name, seed_path=seed_path):
        await asyncio.get_running_loop().create_future()


async def _watch_cluster(bus: Bus, settings: Settings, duty: Duty) -> None:
    await asyncio.to_thread(importlib.import_module, "everstep_node_watcher.cluster_service")
    from everstep_kube.client import connect as connect_cluster  # only here: it takes long
    from everstep_kube.kubeconfig import kubeconfig_files

    from everstep_node_watcher.cluster_service import serve_cluster

    files = kubeconfig_files(settings.kubeconfig_path, os.environ)
    async with connect_cluster(files, user_agent="everstep-node-watcher/1") as client:
        await serve_cluster(bus, client, duty)


if __name__ == "__main__":
    sys.exit(main())
