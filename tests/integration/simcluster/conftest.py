"""A small cluster without networks of its own, new for every test."""

from collections.abc import AsyncIterator

import pytest
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.settings import ClusterSettings
from support.simcluster import NAMESPACE


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
