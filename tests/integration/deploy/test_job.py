"""The Volcano Job to copy, on a deployed Everstep: eight members train while parts of it fail."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Bus
from everstep_bus.nats import connect
from everstep_bus.nats.credentials import role_seed_path
from everstep_contract.clients import service_client_name
from everstep_contract.layout import JOBS
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.resources import QUEUES
from support.deployment import Deployment
from support.manifests import ROOT, Object, loaded
from support.polling import eventually
from support.simcluster import NAMESPACE, node_of, uids

VOLCANO = ROOT / "deploy" / "volcano"
LOST = "llama-worker-3"
FORMED_SECONDS = 120.0


@pytest.fixture
async def deployed(cluster: Cluster, tmp_path: Path) -> Deployment:
    """All of Everstep, and the job as it is to be copied."""
    deployed = Deployment(cluster, "act", tmp_path, "training/llama")
    await deployed.start()
    (queue,) = loaded(VOLCANO / "queue.yaml")
    cluster.objects.create(QUEUES, "", queue)
    cluster.create_job(job_here(deployed))
    return deployed


@pytest.fixture
async def bus(deployed: Deployment) -> AsyncIterator[Bus]:
    seed = role_seed_path(deployed.credentials, "operator")
    name = service_client_name("operator", "test")
    async with connect(deployed.bus_urls, name, seed_path=seed) as bus:
        yield bus


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_eight_members_are_seven_when_a_node_fails_and_eight_when_its_pod_is_made_anew(
    cluster: Cluster, deployed: Deployment, bus: Bus
) -> None:
    await steps_with(bus, 8)
    before = uids(cluster)[LOST]
    cluster.faults.crash(node_of(cluster, LOST))
    await steps_with(bus, 7)
    await steps_with(bus, 8)
    assert uids(cluster)[LOST] != before


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_loss_of_a_server_of_the_bus_ends_no_generation_and_the_next_loss_is_healed(
    cluster: Cluster, deployed: Deployment, bus: Bus
) -> None:
    before = await steps_with(bus, 8)
    await cluster.faults.power_off(deployed.node_of("everstep-nats-0"))
    await eventually(deployed.all_have_reconnected)
    cluster.faults.crash(node_of(cluster, LOST))
    assert await steps_with(bus, 7) == before + 1


def job_here(deployed: Deployment) -> Object:
    """The manifest with this machine's paths, and one worker a member: there are no GPUs."""
    (job,) = loaded(VOLCANO / "job.yaml")
    (container,) = job["spec"]["tasks"][0]["template"]["spec"]["containers"]
    homes = {
        "/var/run/everstep": str(deployed.secret("llama-bus")),
        "/checkpoints": str(deployed.claim("checkpoints")),
        "/app/": f"{ROOT / 'trainer' / 'examples'}/",
    }
    for entry in container["env"]:
        if "value" in entry:
            entry["value"] = deployed.here(entry["value"], homes)
    program, *words = [deployed.here(word, homes) for word in container["command"]]
    assert program == "everstep"
    words = [word.replace("--nproc-per-node=8", "--nproc-per-node=1") for word in words]
    everstep = str(Path(sys.executable).with_name(program))
    container["command"] = [everstep, *words, "--steps=1000000"]
    return job


async def steps_with(bus: Bus, members: int) -> int:
    """Wait until a generation of so many members has completed a step; which one it is."""
    found = 0

    async def steps() -> bool:
        nonlocal found
        try:
            entry = await bus.kv(JOBS).get(f"{NAMESPACE}.llama")
        except TransientBusError:  # between two leaders
            return False
        record = entry.value if entry else None
        found = record.generation if record else 0
        return record is not None and (record.phase, len(record.seats)) == ("resumed", members)

    await eventually(steps, within_seconds=FORMED_SECONDS)
    return found
