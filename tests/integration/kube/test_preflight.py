"""`everstep preflight --from-cluster`, against the simulated API server."""

import asyncio
import json
import sys

import yaml
from everstep_simcluster.cluster import Cluster
from support.preflight import with_policies
from support.simcluster import NAMESPACE


async def preflight(cluster: Cluster, *arguments: str) -> tuple[int | None, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "everstep_cli", "preflight", *arguments),
        *("--kubeconfig", str(cluster.kubeconfig_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    stdout, stderr = await asyncio.wait_for(process.communicate(), timeout=60)
    assert b"Traceback" not in stderr
    return process.returncode, stdout.decode()


async def test_a_job_of_the_cluster_is_looked_at_and_has_to_be_made_anew(cluster: Cluster) -> None:
    job = yaml.safe_load(with_policies("PodFailed -> RestartJob"))
    job["metadata"]["namespace"] = NAMESPACE
    cluster.create_job(job)
    status, said = await preflight(cluster, "--from-cluster", f"{NAMESPACE}/llama", "--json")
    found = {finding["rule"]: finding["recreate"] for finding in json.loads(said)["findings"]}
    assert status == 1
    assert found == {"policy-ends-survivors": True, "max-retry-fatal": True}  # the webhook's 3


async def test_a_job_that_is_not_there_is_unreadable(cluster: Cluster) -> None:
    status, said = await preflight(cluster, "--from-cluster", f"{NAMESPACE}/nobody")
    assert (status, "404" in said) == (2, True)


async def test_a_name_that_is_none_is_misuse(cluster: Cluster) -> None:
    status, _ = await preflight(cluster, "--from-cluster", "llama")
    assert status == 2
