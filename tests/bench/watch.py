"""What the node watcher costs beside a large cluster: its own process, a real bus, 50,000 nodes.

The API server is one of the bench (`watch_server`): no machine here holds 50,000 kubelets.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp
from bench.report import Figure, figure, parser, show
from bench.watch_objects import JOB_UID, node_name, pod_name, uid
from everstep_cli.access import quiet_logs
from everstep_contract.identity import Member
from everstep_contract.layout import JOBS
from support.jobs import record
from support.messages import JOB
from support.nats_world import NatsWorld
from support.polling import eventually
from support.service_processes import ServiceProcess, service_process, settings_of

RSS_LIMIT_MIB: Final = 500.0
CORES_LIMIT: Final = 1.0
SEATS: Final = 32
"""Members with a connection of their own, so that nobody is silent."""
POLL_SECONDS: Final = 1.0
FIRST_LIST_SECONDS: Final = 900.0
TICKS_A_SECOND: Final = os.sysconf("SC_CLK_TCK")
FACTS: Final = 'everstep_node_watcher_facts_total{outcome="published"}'


@dataclass(frozen=True)
class Spent:
    """What a process has used so far, and when that was."""

    at: float
    cpu_seconds: float
    peak_mib: float

    def cores_since(self, before: "Spent") -> float:
        """CPU seconds a second in between."""
        return (self.cpu_seconds - before.cpu_seconds) / (self.at - before.at)


def spent(pid: int) -> Spent:
    """What the kernel says of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next(line for line in status if line.startswith("VmHWM"))
    ticks = int(fields[11]) + int(fields[12])
    return Spent(time.monotonic(), ticks / TICKS_A_SECOND, int(peak.split()[1]) / 1024)


@asynccontextmanager
async def api_server(chosen: Namespace) -> AsyncIterator[str]:
    """The bench's API server in a process of its own; yields its URL."""
    given = {
        "--nodes": chosen.nodes,
        "--pods": chosen.pods,
        "--heartbeat-seconds": chosen.heartbeat_seconds,
        "--flips": chosen.flips,
        "--pod-updates": chosen.pod_updates,
    }
    words = [word for flag, value in given.items() for word in (flag, str(value))]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.watch_server", *words), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        await process.wait()


def kubeconfig(url: str, folder: Path) -> Path:
    """A way to the server, as kubectl would write it in JSON."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "bench", "cluster": {"server": url}}],
        "users": [{"name": "bench", "user": {"token": "bench"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
        "current-context": "bench",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


async def seat_members(world: NatsWorld, seats: int) -> None:
    """A job whose first members are seated, and connected to the bus."""
    members = tuple(
        Member(
            job_uid=JOB_UID,
            name=pod_name(index),
            pod_uid=uid(2, index),
            incarnation=f"{pod_name(index)}-1",
            node=node_name(index),
        )
        for index in range(seats)
    )
    for member in members:
        await world.agent(JOB, member.incarnation)
    adjudicator = await world.service("adjudicator")
    ruled = record(1, members, job=JOB, job_uid=JOB_UID, phase="resumed")
    await adjudicator.kv(JOBS).put(JOB.token, ruled, expected=0)


async def published(watcher: ServiceProcess) -> int:
    """How many facts the watcher has brought to the bus."""
    lines = (await watcher.get("/metrics")).splitlines()
    return next((int(float(line.split()[-1])) for line in lines if line.startswith(FACTS)), 0)


async def is_told(watcher: ServiceProcess, least: int) -> bool:
    """Whether the first list has been read to its end, and every fact of it is on the bus."""
    await asyncio.sleep(POLL_SECONDS)  # its metrics cost it CPU too
    return await published(watcher) >= least and await watcher.is_ready()


async def measure(chosen: Namespace, folder: Path) -> list[Figure]:
    """Start everything, wait for the first list, let the cluster churn."""
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(api_server(chosen))
        world = NatsWorld(folder)
        stack.push_async_callback(world.close)
        await world.start()
        await seat_members(world, min(SEATS, chosen.pods, chosen.nodes))
        settings = {
            **settings_of("node_watcher", world.server.url, world.credentials),
            "EVERSTEP_CLUSTER": "kubernetes",
            "EVERSTEP_KUBECONFIG_PATH": str(kubeconfig(url, folder)),
        }
        process = service_process("node_watcher", settings, folder / "watcher.log")
        began = Spent(time.monotonic(), 0.0, 0.0)
        watcher = await stack.enter_async_context(process)
        least = chosen.nodes + chosen.pods + 1
        await eventually(lambda: is_told(watcher, least), within_seconds=FIRST_LIST_SECONDS)
        listed, facts = spent(watcher.pid), await published(watcher)
        before = await counts(url)
        await asyncio.sleep(chosen.seconds)
        ended, after = spent(watcher.pid), await counts(url)
        told = await published(watcher) - facts
    events = after["events"] - before["events"]
    megabytes = (after["event_bytes"] - before["event_bytes"]) / 1e6
    churned = ended.at - listed.at
    return [
        figure("peak RSS", "MiB", [ended.peak_mib], limit=RSS_LIMIT_MIB),
        figure("cores while churning", "cores", [ended.cores_since(listed)], limit=CORES_LIMIT),
        figure("cores from the start", "cores", [ended.cores_since(began)], limit=CORES_LIMIT),
        figure("first list read and told", "s", [listed.at - began.at]),
        figure("CPU of the first list", "s", [listed.cpu_seconds]),
        figure("RSS after the first list", "MiB", [listed.peak_mib]),
        figure("events heard", "1/s", [events / churned]),
        figure("events heard", "MB/s", [megabytes / churned]),
        figure("facts told while churning", "1/s", [told / churned]),
    ]


async def counts(url: str) -> dict[str, int]:
    """What the API server has served."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/counts") as answer:
        served = await answer.json()
    return {"events": 0, "event_bytes": 0, **served}


def main() -> int:
    """Measure; 1 when a limit does not hold."""
    flags = parser(__doc__)
    flags.add_argument("--nodes", type=int, default=50_000)
    flags.add_argument("--pods", type=int, default=1000)
    flags.add_argument(
        "--seconds", type=float, default=600.0, help="of churn, after the first list"
    )
    flags.add_argument("--heartbeat-seconds", type=float, default=300.0)
    flags.add_argument("--flips", type=float, default=1.0, help="nodes NotReady, a second")
    flags.add_argument("--pod-updates", type=float, default=5.0, help="a second")
    chosen = flags.parse_args()
    quiet_logs()
    with tempfile.TemporaryDirectory(prefix="everstep-watch-") as folder:
        found = asyncio.run(measure(chosen, Path(folder)))
    show("watch", found, as_json=chosen.json)
    return 0 if all(one.holds for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
