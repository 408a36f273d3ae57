"""The Volcano Job that users copy is taken in by the simulated cluster as it is."""

from pathlib import Path

import yaml
from everstep_simcluster.cluster import Cluster
from support.polling import eventually
from support.simcluster import phases

MANIFEST = Path(__file__).parents[3] / "deploy" / "volcano" / "job.yaml"


async def test_the_job_to_copy_makes_all_its_pods(cluster: Cluster) -> None:
    cluster.create_job(yaml.safe_load(MANIFEST.read_text()))
    await eventually(lambda: sorted(phases(cluster)) == [f"llama-worker-{n}" for n in range(8)])
