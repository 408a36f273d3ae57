"""A cluster with a node for each pod of ``deploy/``, and some for a job."""

import os
from collections.abc import AsyncIterator

import pytest
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.settings import ClusterSettings
from support.simcluster import NAMESPACE

DEPLOYED_PODS = 10
JOB_PODS = 8


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """Pods share their nodes' addresses, at the manifests' ports: each test run has its own."""
    settings = ClusterSettings(
        nodes=DEPLOYED_PODS + JOB_PODS,
        networks="none",
        loopback=f"127.{1 + os.getpid() % 250}",
        namespaces=("everstep", NAMESPACE),
    )
    async with Cluster(settings) as cluster:
        yield cluster
