"""The services as processes between a real nats-server and the simulated API server."""

from pathlib import Path

from everstep_contract.envelope import decode
from everstep_contract.facts.job import ClusterWritten
from everstep_contract.facts.node import NodeObserved
from everstep_contract.identity import JobKey
from everstep_contract.layout import EVENTS, JOBS
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.resources import JOBS as VOLCANO_JOBS
from everstep_simcluster.store import Ref
from support.jobs import member, record
from support.nats_world import NatsWorld
from support.polling import eventually
from support.service_processes import service_process, settings_of
from support.simcluster import NAMESPACE, job_manifest

JOB = JobKey(namespace=NAMESPACE, name="train")


async def test_both_services_work_unmodified_against_the_simulated_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    world = NatsWorld(tmp_path)
    await world.start()
    uid = cluster.create_job(job_manifest())["metadata"]["uid"]
    there = {
        "EVERSTEP_CLUSTER": "kubernetes",
        "EVERSTEP_KUBECONFIG_PATH": str(cluster.kubeconfig_path),
    }
    url, credentials = world.server.url, world.credentials
    watcher = {**settings_of("node_watcher", url, credentials), **there}
    rescaler = {**settings_of("rescaler", url, credentials), **there, "EVERSTEP_MODE": "act"}
    async with (
        service_process("node_watcher", watcher, tmp_path / "watcher") as watching,
        service_process("rescaler", rescaler, tmp_path / "rescaler") as rescaling,
    ):
        await eventually(watching.is_ready)
        await eventually(rescaling.is_ready)
        adjudicator = await world.service("adjudicator")
        ruled = record(7, (member(0),), job=JOB, job_uid=uid, phase="resumed")
        await adjudicator.kv(JOBS).put(JOB.token, ruled, expected=0)
        await eventually(lambda: annotated(cluster) == "7")
        await eventually(lambda: told(world))
    await world.close()


def annotated(cluster: Cluster) -> str:
    job = cluster.objects.get(VOLCANO_JOBS, Ref(NAMESPACE, "train"))
    return str((job["metadata"].get("annotations") or {}).get("everstep.dev/generation"))


async def told(world: NatsWorld) -> bool:
    stored = await world.stored(EVENTS.name)
    facts = [decode(headers, payload) for _, headers, payload in stored]
    nodes = {fact.node for fact in facts if isinstance(fact, NodeObserved)}
    return len(nodes) == 3 and any(isinstance(fact, ClusterWritten) for fact in facts)
