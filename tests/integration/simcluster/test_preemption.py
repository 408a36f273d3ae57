"""A pod of a higher priority takes the place of a member, as Volcano's preempt action does it."""

from everstep_simcluster import preemptors
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.objects import condition_of
from everstep_simcluster.resources import EVENTS, PODS
from everstep_simcluster.store import Ref
from support.simcluster import (
    NAMESPACE,
    job_manifest,
    job_phase,
    job_status,
    node_of,
    phases,
    running,
    uids,
)


async def start(cluster: Cluster, **job: int) -> None:
    cluster.create_job(job_manifest(**job))  # type: ignore[arg-type]  # passed through
    await cluster.wait_for(lambda: job_phase(cluster) == "Running" and running(cluster, 3)())


def reasons(cluster: Cluster) -> set[tuple[str, str]]:
    events = cluster.objects.every(EVENTS, NAMESPACE)
    return {(event["reason"], event["message"]) for event in events}


async def test_a_member_above_the_minimum_gives_its_node_to_a_pod_of_higher_priority(
    cluster: Cluster,
) -> None:
    await start(cluster)
    before, node = uids(cluster), node_of(cluster, "train-worker-1")
    cluster.faults.preempt(node)
    urgent = Ref(preemptors.NAMESPACE, node)
    await cluster.wait_for(
        lambda: cluster.objects.get(PODS, urgent)["status"]["phase"] == "Running"
    )
    await cluster.wait_for(lambda: phases(cluster).get("train-worker-1") == "Pending")
    assert ("Evict", "Pod is evicted, because of preempt") in reasons(cluster)
    assert uids(cluster)["train-worker-1"] != before["train-worker-1"]
    assert uids(cluster)["train-worker-0"] == before["train-worker-0"]
    assert "retryCount" not in job_status(cluster)
    cluster.faults.relent(node)
    await cluster.wait_for(running(cluster, 3))


async def test_a_victim_is_not_ready_because_it_is_evicted_and_leaves_in_its_grace(
    cluster: Cluster,
) -> None:
    seen = []
    cluster.objects.listen(lambda change: seen.append(change.object))
    await start(cluster)
    cluster.faults.preempt(node_of(cluster, "train-worker-1"))
    await cluster.wait_for(lambda: phases(cluster).get("train-worker-1") == "Pending")
    evicted = [
        condition
        for body in seen
        if body["metadata"]["name"] == "train-worker-1"
        and (condition := condition_of(body, "Ready"))
        and condition.get("reason") == "Evict"
    ]
    assert {condition["status"] for condition in evicted} == {"False"}


async def test_a_gang_at_its_minimum_is_left_alone(cluster: Cluster) -> None:
    await start(cluster, min_available=3)
    before, node = uids(cluster), node_of(cluster, "train-worker-1")
    cluster.faults.preempt(node)
    urgent = Ref(preemptors.NAMESPACE, node)
    await cluster.wait_for(
        lambda: condition_of(cluster.objects.get(PODS, urgent), "PodScheduled") is not None
    )
    assert uids(cluster) == before


async def test_pods_of_equal_priority_do_not_take_each_others_place(cluster: Cluster) -> None:
    await start(cluster)
    before = uids(cluster)
    cluster.create_job(job_manifest("second", replicas=1, min_available=1))
    await cluster.wait_for(
        lambda: any(e["reason"] == "FailedScheduling" for e in cluster.objects.every(EVENTS))
    )
    assert before.items() <= uids(cluster).items()
