"""A small simulated cluster without networks of its own, and Everstep's way to its API."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest
from everstep_kube.client import KubeClient, connect
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.settings import ClusterSettings
from support.rescaling_scene import Scene
from support.simcluster import NAMESPACE, job_manifest, running


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    settings = ClusterSettings(
        nodes=3,
        networks="none",
        namespaces=(NAMESPACE,),
        heartbeat_seconds=0.1,
        node_grace_seconds=0.6,
        restart_delay_seconds=0.05,
    )
    async with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[KubeClient]:
    async with connect(cluster.kubeconfig_path, user_agent="everstep-test/1") as client:
        yield client


@pytest.fixture
async def scene(cluster: Cluster) -> AsyncIterator[Scene]:
    """A job of three pods, each on a node of its own."""
    cluster.create_job(job_manifest())
    await cluster.wait_for(running(cluster, 3))
    async with AsyncExitStack() as stack:
        yield Scene(cluster, stack)
