"""Reads the settings, connects to the cluster if there is one, and hands over to the runtime."""

import asyncio
import importlib
import os
import sys

from everstep_bus.interface import Bus
from everstep_runtime.clock import SystemClock
from everstep_runtime.health import Readiness
from everstep_runtime.service import run_service

from everstep_rescaler.config import Settings
from everstep_rescaler.declining import decline
from everstep_rescaler.service import serve


def main() -> int:
    """Run the rescaler; the process's exit status."""
    settings = Settings.from_env(os.environ)

    async def start(bus: Bus, readiness: Readiness) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(bus, SystemClock(), readiness))
            if settings.cluster == "kubernetes":
                group.create_task(_keep_cluster(bus, settings))
            else:
                group.create_task(decline(bus, SystemClock()))

    return run_service("rescaler", start, settings)


async def _keep_cluster(bus: Bus, settings: Settings) -> None:
    await asyncio.to_thread(importlib.import_module, "everstep_rescaler.cluster_service")
    from everstep_kube.client import connect  # only here: Kubernetes takes long to import
    from everstep_kube.kubeconfig import kubeconfig_files
    from everstep_kube.writing import ClusterApi

    from everstep_rescaler.cluster_service import serve_cluster

    files = kubeconfig_files(settings.kubeconfig_path, os.environ)
    async with connect(files, user_agent="everstep-rescaler/1") as client:
        policy, holder = settings.cluster_policy(), settings.instance
        await serve_cluster(bus, ClusterApi(client), policy, SystemClock(), holder=holder)


if __name__ == "__main__":
    sys.exit(main())
