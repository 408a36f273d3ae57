"""The Volcano Job that users copy is taken in by the simulated cluster as it is."""

from everstep_simcluster.cluster import Cluster
from everstep_simcluster.resources import QUEUES
from support.manifests import ROOT, loaded
from support.polling import eventually
from support.simcluster import phases

VOLCANO = ROOT / "deploy" / "volcano"


async def test_the_job_to_copy_makes_all_its_pods(cluster: Cluster) -> None:
    (queue,), (job,) = loaded(VOLCANO / "queue.yaml"), loaded(VOLCANO / "job.yaml")
    cluster.objects.create(QUEUES, "", queue)
    cluster.create_job(job)
    await eventually(lambda: sorted(phases(cluster)) == [f"llama-worker-{n}" for n in range(8)])
