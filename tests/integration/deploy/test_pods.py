"""Every pod of ``deploy/k8s`` is ready by its own probes, and outlives a server of the bus."""

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

from everstep_bus.errors import RevisionMismatchError, TransientBusError
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.credentials import role_seed_path
from everstep_bus.nats.link import AUTHORITY
from everstep_contract.clients import service_client_name
from everstep_contract.layout import JOBS
from everstep_simcluster.cluster import Cluster
from support.deployment import Deployment
from support.jobs import record
from support.polling import eventually


async def test_every_pod_is_ready_and_the_bus_outlives_any_one_of_its_servers(
    cluster: Cluster, tmp_path: Path
) -> None:
    deployed = Deployment(cluster, "observe", tmp_path, "training/train")
    await deployed.start()
    assert len(deployed.pods()) == 10
    seed = role_seed_path(deployed.credentials, "adjudicator")
    assert seed.with_name(AUTHORITY).exists()
    name = service_client_name("adjudicator", "test")
    async with connect(deployed.bus_urls[1:], name, seed_path=seed) as bus:
        await eventually(lambda: written(bus, 1))
        assert set((await asyncio.to_thread(copies, deployed)).values()) == {3}
        await cluster.faults.power_off(deployed.node_of("everstep-nats-0"))
        await eventually(lambda: written(bus, 2))
    await eventually(deployed.all_have_reconnected)
    await deployed.wait_ready("everstep-nats-0")


async def written(bus: Bus, generation: int) -> bool:
    """Whether the record is there now; a bus between two leaders may not say so at once."""
    jobs = bus.kv(JOBS)
    try:
        entry = await jobs.get("default.one")
        if entry is None or entry.value != record(generation, ()):
            expected = entry.revision if entry else 0
            await jobs.put("default.one", record(generation, ()), expected=expected)
    except (TransientBusError, RevisionMismatchError):
        return False
    return True


def copies(deployed: Deployment) -> dict[str, int]:
    """On how many servers each stream is kept, as one of them tells on its monitoring port."""
    host = urlsplit(deployed.bus_urls[1]).hostname
    with urlopen(f"http://{host}:8222/jsz?accounts=1&streams=1") as answer:  # ours
        (account,) = json.load(answer)["account_details"]
    return {
        stream["name"]: 1 + len(stream["cluster"]["replicas"])
        for stream in account["stream_detail"]
    }
