"""Jobs do what Volcano's own controllers and scheduler were recorded doing."""

import pytest
from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.patch import JSON_PATCH, MERGE_PATCH, Patch
from everstep_simcluster.resources import (
    COMMANDS,
    EVENTS,
    JOBS,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Object,
)
from everstep_simcluster.settings import ClusterSettings
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

TRAIN = Ref(NAMESPACE, "train")
STUBBORN = ("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")


def worker(index: int) -> Ref:
    return Ref(NAMESPACE, f"train-worker-{index}")


def pod_group(cluster: Cluster) -> Object:
    (group,) = cluster.objects.every(POD_GROUPS, NAMESPACE)
    return group


def delete(cluster: Cluster, index: int, grace_seconds: int | None = None) -> None:
    cluster.objects.delete(PODS, worker(index), DeleteOptions(grace_seconds=grace_seconds))


def command(cluster: Cluster, action: str, *, uid: str = "of-an-earlier-job") -> None:
    target = {"apiVersion": JOBS.api_version, "kind": "Job", "name": "train", "uid": uid}
    body = {"metadata": {"generateName": "train-"}, "action": action, "target": target}
    cluster.objects.create(COMMANDS, NAMESPACE, body)


def cordon(cluster: Cluster, node: str, *, on: bool) -> None:
    patch = Patch(MERGE_PATCH, {"spec": {"unschedulable": True if on else None}})
    cluster.objects.patch(NODES, Ref("", node), patch)


async def start(cluster: Cluster, **job: object) -> None:
    cluster.create_job(job_manifest(**job))  # type: ignore[arg-type]  # passed through
    await cluster.wait_for(lambda: job_phase(cluster) == "Running" and running(cluster, 3)())


async def test_pods_are_named_by_index_and_marked_with_their_group(cluster: Cluster) -> None:
    await start(cluster)
    pods = {pod["metadata"]["name"]: pod for pod in cluster.pods(NAMESPACE)}
    job = cluster.objects.get(JOBS, TRAIN)
    assert sorted(pods) == ["train-worker-0", "train-worker-1", "train-worker-2"]
    group = f"train-{job['metadata']['uid']}"
    first = pods["train-worker-0"]["metadata"]
    assert first["annotations"]["scheduling.k8s.io/group-name"] == group
    assert first["labels"]["volcano.sh/job-name"] == "train"
    assert first["labels"]["volcano.sh/task-index"] == "0"
    assert pod_group(cluster)["metadata"]["name"] == group


async def test_the_pod_group_of_a_running_job_is_running(cluster: Cluster) -> None:
    await start(cluster)
    await cluster.wait_for(lambda: pod_group(cluster)["status"].get("running") == 3)
    assert pod_group(cluster)["status"]["phase"] == "Running"
    assert pod_group(cluster)["spec"]["minMember"] == 2


async def test_a_deleted_pod_is_remade_under_its_index_and_costs_no_retry(
    cluster: Cluster,
) -> None:
    await start(cluster)
    before = uids(cluster)
    delete(cluster, 1, grace_seconds=0)
    await cluster.wait_for(
        lambda: (
            uids(cluster).get("train-worker-1") not in (None, before["train-worker-1"])
            and running(cluster, 3)()
        )
    )
    assert uids(cluster)["train-worker-0"] == before["train-worker-0"]
    assert "retryCount" not in job_status(cluster)


async def test_a_terminating_pod_blocks_its_successor(cluster: Cluster) -> None:
    await start(cluster, command=STUBBORN)
    delete(cluster, 1)
    await cluster.wait_for(lambda: job_status(cluster).get("terminating") == 1)
    assert job_status(cluster)["running"] == 2
    assert phases(cluster)["train-worker-1"] == "Terminating"
    before = uids(cluster)["train-worker-1"]
    delete(cluster, 1, grace_seconds=0)
    await cluster.wait_for(running(cluster, 3))
    assert uids(cluster)["train-worker-1"] != before


async def test_a_failed_pod_is_not_replaced_until_somebody_deletes_it(cluster: Cluster) -> None:
    await start(cluster)
    cluster.faults.crash(node_of(cluster, "train-worker-2"))
    await cluster.wait_for(lambda: job_status(cluster).get("failed") == 1)
    assert job_phase(cluster) == "Running"
    assert phases(cluster)["train-worker-2"] == "Failed"
    delete(cluster, 2)
    await cluster.wait_for(running(cluster, 3))


async def test_fewer_running_than_the_minimum_is_pending_and_the_group_unknown(
    cluster: Cluster,
) -> None:
    await start(cluster)
    for index in (0, 1):
        cordon(cluster, node_of(cluster, f"train-worker-{index}"), on=True)
        delete(cluster, index, grace_seconds=0)
    await cluster.wait_for(lambda: job_phase(cluster) == "Pending")
    await cluster.wait_for(lambda: pod_group(cluster)["status"]["phase"] == "Unknown")
    assert phases(cluster)["train-worker-2"] == "Running"
    for node in cluster.machines:
        cordon(cluster, node, on=False)
    await cluster.wait_for(lambda: job_phase(cluster) == "Running" and running(cluster, 3)())


async def test_a_gang_that_does_not_fit_gets_no_node_at_all(cluster: Cluster) -> None:
    cluster.create_job(job_manifest(replicas=4, min_available=4))
    await cluster.wait_for(lambda: len(phases(cluster)) == 4)
    await cluster.wait_for(
        lambda: any(e["reason"] == "FailedScheduling" for e in cluster.objects.every(EVENTS))
    )
    assert all("nodeName" not in pod["spec"] for pod in cluster.pods(NAMESPACE))
    assert job_phase(cluster) == "Pending"


async def test_pods_of_others_count_against_a_node(cluster: Cluster) -> None:
    await start(cluster)
    cluster.create_job(job_manifest("second", replicas=1, min_available=1))
    await cluster.wait_for(lambda: "second-worker-0" in phases(cluster))
    assert phases(cluster)["second-worker-0"] == "Pending"
    cluster.objects.delete(JOBS, TRAIN, DeleteOptions())
    await cluster.wait_for(lambda: phases(cluster).get("second-worker-0") == "Running")


async def test_scaling_down_removes_the_highest_index(cluster: Cluster) -> None:
    await start(cluster)
    operations = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}]
    cluster.objects.patch(JOBS, TRAIN, Patch(JSON_PATCH, operations))
    await cluster.wait_for(lambda: sorted(phases(cluster)) == ["train-worker-0", "train-worker-1"])


async def test_changing_the_minimum_changes_the_pod_group(cluster: Cluster) -> None:
    await start(cluster)
    operations = [{"op": "replace", "path": "/spec/minAvailable", "value": 3}]
    cluster.objects.patch(JOBS, TRAIN, Patch(JSON_PATCH, operations))
    await cluster.wait_for(lambda: pod_group(cluster)["spec"]["minMember"] == 3)


async def test_the_third_deletion_of_a_pod_with_a_restart_policy_kills_the_job(
    cluster: Cluster,
) -> None:
    await start(cluster, policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    for retry in (1, 2):
        delete(cluster, 0, grace_seconds=0)
        await cluster.wait_for(
            lambda retry=retry: (
                job_status(cluster).get("retryCount") == retry  # type: ignore[misc]
                and running(cluster, 3)()
            )
        )
    delete(cluster, 0, grace_seconds=0)
    await cluster.wait_for(lambda: job_phase(cluster) == "Failed" and not phases(cluster))
    command(cluster, "ResumeJob")
    await cluster.wait_for(lambda: not cluster.objects.every(COMMANDS))
    assert job_phase(cluster) == "Failed"


async def test_restart_job_remakes_group_and_pods_and_spends_a_retry(cluster: Cluster) -> None:
    await start(cluster)
    before, group = uids(cluster), pod_group(cluster)["metadata"]["uid"]
    command(cluster, "RestartJob")
    await cluster.wait_for(
        lambda: not set(before.values()) & set(uids(cluster).values()) and running(cluster, 3)()
    )
    assert job_status(cluster)["retryCount"] == 1
    assert job_status(cluster)["version"] == 1
    assert pod_group(cluster)["metadata"]["uid"] != group


async def test_an_aborted_job_has_no_pods_and_can_be_resumed(cluster: Cluster) -> None:
    await start(cluster)
    command(cluster, "AbortJob")
    await cluster.wait_for(lambda: job_phase(cluster) == "Aborted")
    assert not phases(cluster)
    command(cluster, "ResumeJob")
    await cluster.wait_for(lambda: job_phase(cluster) == "Running" and running(cluster, 3)())
    assert job_status(cluster)["retryCount"] == 1


async def test_a_command_with_an_unknown_action_or_job_is_consumed(cluster: Cluster) -> None:
    await start(cluster)
    command(cluster, "Nonsense")
    await cluster.wait_for(lambda: not cluster.objects.every(COMMANDS))
    await cluster.wait_for(
        lambda: (
            {"CommandIssued", "ExecuteAction"}
            <= {event["reason"] for event in cluster.objects.every(EVENTS)}
        )
    )
    assert job_phase(cluster) == "Running"


async def test_a_job_whose_pods_all_succeed_is_completed(cluster: Cluster) -> None:
    cluster.create_job(job_manifest(command=("true",)))
    await cluster.wait_for(lambda: job_phase(cluster) == "Completed")
    assert set(phases(cluster).values()) == {"Succeeded"}


async def test_deleting_a_job_takes_its_pods_and_group_along(cluster: Cluster) -> None:
    await start(cluster)
    cluster.objects.delete(JOBS, TRAIN, DeleteOptions())
    await cluster.wait_for(
        lambda: not phases(cluster) and not cluster.objects.every(POD_GROUPS, NAMESPACE)
    )


async def test_a_pod_on_a_dead_node_waits_to_be_forced(cluster: Cluster) -> None:
    await start(cluster)
    node = node_of(cluster, "train-worker-0")
    await cluster.faults.power_off(node)
    cordon(cluster, node, on=True)
    delete(cluster, 0)
    await cluster.wait_for(lambda: job_status(cluster).get("terminating") == 1)
    with pytest.raises(TimeoutError):
        await cluster.wait_for(lambda: phases(cluster)["train-worker-0"] != "Terminating", 0.3)
    delete(cluster, 0, grace_seconds=0)
    await cluster.wait_for(lambda: phases(cluster).get("train-worker-0") == "Pending")
    assert job_phase(cluster) == "Running"


async def test_the_default_queue_is_there(cluster: Cluster) -> None:
    assert cluster.objects.find(QUEUES, Ref("", "default")) is not None


@pytest.mark.parametrize("spec", [{}, {"tasks": []}, {"tasks": [{"replicas": 1}]}])
async def test_a_job_that_can_have_no_pods_is_denied(spec: Object, cluster: Cluster) -> None:
    with pytest.raises(ApiError) as denied:
        cluster.create_job({"metadata": {"name": "train", "namespace": NAMESPACE}, "spec": spec})
    assert denied.value.code == 400


async def test_a_template_that_is_no_pod_is_complained_about_where_no_webhook_is() -> None:
    settings = ClusterSettings(
        nodes=0, networks="none", namespaces=(NAMESPACE,), volcano_webhook=False
    )
    spec = {"minAvailable": 1, "tasks": [{"name": "worker", "replicas": 1}]}
    async with Cluster(settings) as cluster:
        cluster.create_job({"metadata": {"name": "train", "namespace": NAMESPACE}, "spec": spec})
        await cluster.wait_for(
            lambda: "FailedCreate" in {e["reason"] for e in cluster.objects.every(EVENTS)}
        )
