"""The real kubectl works against the cluster."""

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Coroutine

import pytest
from everstep_simcluster.cluster import Cluster
from support.simcluster import FOREVER, NAMESPACE, job_manifest, phases, pod_manifest, running

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")

KUBECTL_SECONDS = 30
Kubectl = Callable[..., Coroutine[None, None, str]]


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    async def run(*arguments: str, text: str = "") -> str:
        """What kubectl printed; fails when it did."""
        process = await asyncio.create_subprocess_exec(
            "kubectl", "--namespace", NAMESPACE, *arguments,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(cluster.folder),
                "KUBECONFIG": str(cluster.kubeconfig_path),
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(KUBECTL_SECONDS):
                printed, _ = await process.communicate(text.encode())
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, printed.decode()
        return printed.decode()

    return run


async def test_a_job_is_applied_shown_and_deleted(cluster: Cluster, kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", text=json.dumps(job_manifest()))
    await cluster.wait_for(running(cluster, 3))
    jobs = await kubectl("get", "vcjob")
    assert jobs.splitlines()[0].split() == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"]
    assert jobs.splitlines()[1].split()[:4] == ["train", "Running", "2", "3"]
    pods = await kubectl("get", "pods", "-o", "wide")
    assert pods.splitlines()[1].split()[:3] == ["train-worker-0", "1/1", "Running"]
    await kubectl("delete", "vcjob", "train")
    await cluster.wait_for(lambda: not phases(cluster))


async def test_a_pods_output_is_read_as_its_log(cluster: Cluster, kubectl: Kubectl) -> None:
    job = job_manifest(command=("sh", "-c", "echo one; echo two; sleep 1000"))
    cluster.create_job(job)
    await cluster.wait_for(running(cluster, 3))
    assert "two" in await kubectl("logs", "train-worker-0", "--tail", "1")


async def test_a_node_is_cordoned_tainted_described_and_drained(
    cluster: Cluster, kubectl: Kubectl
) -> None:
    cluster.create_job(job_manifest())
    await cluster.wait_for(running(cluster, 3))
    await kubectl("taint", "nodes", "node-1", "everstep.dev/quarantined=i-1:NoSchedule")
    await kubectl("drain", "node-1", "--force", "--timeout", "10s")
    nodes = await kubectl("get", "nodes")
    assert "Ready,SchedulingDisabled" in nodes
    assert "everstep.dev/quarantined=i-1:NoSchedule" in await kubectl("describe", "node", "node-1")
    await cluster.wait_for(lambda: phases(cluster).get("train-worker-1") == "Pending")
    await kubectl("uncordon", "node-1")


async def test_a_pod_is_deleted_and_waited_for(cluster: Cluster, kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", text=json.dumps(pod_manifest("one", FOREVER)))
    await cluster.wait_for(running(cluster, 1))
    await kubectl("delete", "pod", "one", "--wait")
    assert not phases(cluster)


async def test_objects_are_explained_by_the_server_it_says_it_is(kubectl: Kubectl) -> None:
    assert "everstep-simcluster" in await kubectl("version")
    assert "vcjob,vj" in await kubectl("api-resources")
