"""A leader that is paused in the middle of its work writes nothing once another may lead."""

import signal
from pathlib import Path

from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Hang, Rule
from everstep_simcluster.resources import JOBS as VOLCANO_JOBS
from everstep_simcluster.store import Ref
from support.jobs import member, record
from support.nats_world import NatsWorld
from support.polling import eventually
from support.service_processes import service_process, settings_of
from support.simcluster import NAMESPACE, job_manifest

JOB = JobKey(namespace=NAMESPACE, name="train")


async def test_ec25_a_rescaler_that_was_paused_past_its_lease_writes_nothing_stale(
    cluster: Cluster, tmp_path: Path
) -> None:
    world = NatsWorld(tmp_path)
    await world.start()
    uid = cluster.create_job(job_manifest())["metadata"]["uid"]
    settings = {
        **settings_of("rescaler", world.server.url, world.credentials),
        "EVERSTEP_CLUSTER": "kubernetes",
        "EVERSTEP_KUBECONFIG_PATH": str(cluster.kubeconfig_path),
        "EVERSTEP_MODE": "act",
    }
    adjudicator = await world.service("adjudicator")
    before, after = (record(n, (member(0),), job=JOB, job_uid=uid, phase="resumed") for n in (7, 8))
    last_look = Rule(Hang(0.8), method="GET", path="/jobs/train", times=1)
    cluster.api.misbehaviour.add(last_look)
    async with service_process("rescaler", settings, tmp_path / "one") as one:
        await eventually(one.is_ready)
        revision = await adjudicator.kv(JOBS).put(JOB.token, before, expected=0)
        await eventually(lambda: last_look.times == 0)
        one.signal(signal.SIGSTOP)
        await adjudicator.kv(JOBS).put(JOB.token, after, expected=revision)
        async with service_process("rescaler", settings, tmp_path / "two"):
            await eventually(lambda: annotated(cluster) == "8")
            one.signal(signal.SIGCONT)
            await eventually(lambda: "lease lost" in one.text)
    written = cluster.audit.matching(method="PATCH", path="/jobs/train")
    assert [write.body["metadata"]["annotations"] for write in written] == [
        {"everstep.dev/generation": "8"}
    ]
    await world.close()


def annotated(cluster: Cluster) -> str:
    job = cluster.objects.get(VOLCANO_JOBS, Ref(NAMESPACE, "train"))
    return str((job["metadata"].get("annotations") or {}).get("everstep.dev/generation"))
