"""What Volcano's controllers and scheduler make of jobs, restarts and missing pods."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from support.conformance.api import Json, eventually, stays
from support.conformance.fake_nodes import FakeNodes
from support.conformance.ground import Ground
from support.conformance.kubelet import Kubelet
from support.conformance.probing import Probes
from support.conformance.volcano import POD_GROUPS_API, VolcanoJob

MakeJob = Callable[..., VolcanoJob]

pytestmark = pytest.mark.timeout(400)

OTHER_UID = "00000000-0000-4000-8000-000000000000"
QUIET_SECONDS = 0.5


@pytest.fixture
def make_job(
    probes: Probes, ground: Ground, nodes: FakeNodes, kubelet: Kubelet
) -> Iterator[MakeJob]:
    """Makes jobs of three pods, two of which have to run."""
    probes.need("volcano")
    made: list[VolcanoJob] = []

    def make(name: str = "train", **job: Any) -> VolcanoJob:
        made.append(VolcanoJob(ground, name, **job))
        return made[-1]

    yield make
    kubelet.revive()
    for job in made:
        job.close()
    ground.clear()


@pytest.fixture
def train(make_job: MakeJob) -> VolcanoJob:
    """A running one."""
    job = make_job()
    job.wait_running()
    return job


def kinds(group: Json) -> set[str]:
    return {one["type"] for one in group.get("status", {}).get("conditions") or ()}


def test_pods_are_named_by_index_and_marked_with_job_task_and_group(train: VolcanoJob) -> None:
    pods = train.pods()
    assert sorted(pods) == [f"train-worker-{index}" for index in range(3)]
    for index in range(3):
        metadata = pods[train.pod(index)]["metadata"]
        assert metadata["labels"]["volcano.sh/job-name"] == "train"
        assert metadata["labels"]["volcano.sh/task-spec"] == "worker"
        assert metadata["labels"]["volcano.sh/task-index"] == str(index)
        group = metadata["annotations"]["scheduling.k8s.io/group-name"]
        assert group == f"train-{train.uid}"


def test_the_pod_group_has_the_jobs_name_and_uid_and_its_minimum(train: VolcanoJob) -> None:
    eventually(lambda: train.group_phase() == "Running", "the PodGroup is Running")
    group = train.group()
    assert group["metadata"]["name"] == f"train-{train.uid}"
    assert group["spec"]["minMember"] == 2


def test_pods_are_made_only_once_the_group_is_in_the_queue(
    make_job: MakeJob, ground: Ground
) -> None:
    since = ground.api.get(ground.pods).version
    groups = ground.path("podgroups", POD_GROUPS_API)
    with ground.api.watch(groups, resourceVersion=since) as watch:
        job = make_job()
        queued = watch.until(
            lambda event: event["object"].get("status", {}).get("phase") == "Inqueue", 60
        )[-1]
    with ground.api.watch(ground.pods, resourceVersion=since) as watch:
        first = watch.next(60)
    assert first["object"]["metadata"]["name"].startswith(f"{job.name}-worker-")
    assert int(queued["object"]["metadata"]["resourceVersion"]) < int(
        first["object"]["metadata"]["resourceVersion"]
    )


def test_a_deleted_pod_is_remade_under_its_name_and_costs_no_retry(train: VolcanoJob) -> None:
    """Where no policy speaks of it: the only replacement that is free."""
    before = train.uids()
    train.delete_pod(1, grace_seconds=0)
    eventually(lambda: train.uids().get(train.pod(1)) not in (None, before[train.pod(1)]), "remade")
    train.wait_running()
    after = train.uids()
    assert {name for name in before if before[name] == after[name]} == {train.pod(0), train.pod(2)}
    assert not train.status().get("retryCount")


def test_a_failed_pod_is_not_replaced_until_somebody_deletes_it(
    train: VolcanoJob, kubelet: Kubelet
) -> None:
    kubelet.exit(train.pod(2), 1)
    eventually(lambda: train.counts() == {"running": 2, "failed": 1}, "one has failed")
    uid = train.uids()[train.pod(2)]
    stays(lambda: train.uids()[train.pod(2)] == uid, "the failed pod", for_seconds=QUIET_SECONDS)
    assert train.phase() == "Running"
    train.delete_pod(2)
    train.wait_running()
    assert train.uids()[train.pod(2)] != uid


def test_between_the_minimum_and_all_the_job_says_running(
    train: VolcanoJob, nodes: FakeNodes
) -> None:
    cordon_all(nodes)
    train.delete_pod(0, grace_seconds=0)
    eventually(lambda: train.counts() == {"running": 2, "pending": 1}, "one is missing")
    assert train.phase() == "Running"


def test_below_the_minimum_the_job_is_pending_the_group_unknown_and_the_rest_runs_on(
    train: VolcanoJob, nodes: FakeNodes
) -> None:
    cordon_all(nodes)
    uid = train.uids()[train.pod(2)]
    for index in (0, 1):
        train.delete_pod(index, grace_seconds=0)
    train.wait_phase("Pending")
    eventually(lambda: train.group_phase() == "Unknown", "the PodGroup is Unknown")
    pod = train.pods()[train.pod(2)]
    assert (pod["metadata"]["uid"], pod["status"]["phase"]) == (uid, "Running")


def test_the_condition_unschedulable_stays_when_everything_runs(
    make_job: MakeJob, nodes: FakeNodes
) -> None:
    """It says that once, there was no room; not to be read alone."""
    cordon_all(nodes)
    job = make_job()
    eventually(
        lambda: any("Unschedulable" in kinds(group) for group in job.groups()), "no room is told"
    )
    for name in nodes.names:
        nodes.uncordon(name)
    job.wait_running()
    eventually(lambda: job.group_phase() == "Running", "the PodGroup is Running")
    assert {"Scheduled", "Unschedulable"} <= kinds(job.group())


def test_a_gang_that_does_not_fit_gets_no_node_at_all(make_job: MakeJob, nodes: FakeNodes) -> None:
    for name in nodes.names[1:]:
        nodes.cordon(name)
    job = make_job()
    eventually(lambda: job.counts() == {"pending": 3}, "its pods are there")
    eventually(lambda: "Unschedulable" in kinds(job.group()), "no room is told")
    assert all("nodeName" not in pod["spec"] for pod in job.pods().values())
    assert job.phase() == "Pending"


def test_pods_of_others_count_against_a_nodes_devices(
    make_job: MakeJob, ground: Ground, nodes: FakeNodes
) -> None:
    for index, name in enumerate(nodes.names[:-1]):
        ground.make_running_pod(f"foreign-{index}", name)
    job = make_job(min_available=1, replicas=2)
    job_pods = eventually(lambda: job.counts().get("running") == 1 and job.pods(), "one has a node")
    placed = [pod["spec"]["nodeName"] for pod in job_pods.values() if pod["spec"].get("nodeName")]
    assert placed == [nodes.names[-1]]


def test_a_cordon_is_honoured_and_so_is_its_end(train: VolcanoJob, nodes: FakeNodes) -> None:
    cordon_all(nodes)
    train.delete_pod(1, grace_seconds=0)
    eventually(lambda: train.counts().get("pending") == 1, "it is remade")
    stays(
        lambda: "nodeName" not in train.pods()[train.pod(1)]["spec"],
        "it has no node",
        for_seconds=QUIET_SECONDS,
    )
    nodes.uncordon(nodes.names[7])
    train.wait_running()
    assert train.node_of(1) == nodes.names[7]


def test_scaling_down_removes_the_highest_index(train: VolcanoJob) -> None:
    """Not the pod on the bad node; it is deleted without the controller's own mark."""
    operations = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 2}]
    train.api.patch(train.path, operations).expect(200)
    eventually(lambda: sorted(train.pods()) == [train.pod(0), train.pod(1)], "one pod less")
    train.wait_running(2)


def test_scaling_up_adds_the_next_index(train: VolcanoJob) -> None:
    operations = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 4}]
    train.api.patch(train.path, operations).expect(200)
    train.wait_running(4)
    assert train.pod(3) in train.pods()


def test_another_minimum_reaches_the_pod_group(train: VolcanoJob) -> None:
    operations = [{"op": "replace", "path": "/spec/minAvailable", "value": 3}]
    answer = train.api.patch(train.path, operations)
    if answer.status == 400:
        pytest.skip("this webhook compares the job's minimum with that of its tasks")
    eventually(lambda: train.group()["spec"]["minMember"] == 3, "the PodGroup has it")


def test_with_a_restart_policy_the_third_deletion_of_one_pod_kills_the_job(
    make_job: MakeJob,
) -> None:
    """Any deletion is a PodEvicted; every restart costs a retry of the whole job. It is final."""
    job = make_job(policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    job.wait_running()
    for retry in (1, 2):
        job.delete_pod(0, grace_seconds=0)
        eventually(partial(has_spent, job, retry), "a retry is spent")
        job.wait_running()
    job.delete_pod(0, grace_seconds=0)
    job.wait_phase("Failed")
    eventually(lambda: not job.pods(), "all pods are killed")
    for action in ("ResumeJob", "TerminateJob"):
        job.wait_consumed(job.command(action))
        stays(lambda: job.phase() == "Failed", "it is Failed", for_seconds=QUIET_SECONDS)


def test_restarting_a_job_remakes_its_pods_and_its_group_and_costs_a_retry(
    train: VolcanoJob,
) -> None:
    """The PodGroup keeps its name and gets a new uid; indices may come to other nodes."""
    before, group = train.uids(), train.group()
    train.wait_consumed(train.command("RestartJob"))
    eventually(lambda: train.status().get("retryCount") == 1, "a retry is spent")
    eventually(lambda: not set(before.values()) & set(train.uids().values()), "all are remade")
    train.wait_running()
    assert train.status()["version"] == 1
    after = train.group()
    assert after["metadata"]["name"] == group["metadata"]["name"]
    assert after["metadata"]["uid"] != group["metadata"]["uid"]


def test_an_aborted_job_has_no_pods_and_resuming_costs_a_retry(train: VolcanoJob) -> None:
    """Its version is no count of restarts."""
    train.command("AbortJob")
    train.wait_phase("Aborted")
    assert train.pods() == {}
    train.command("ResumeJob")
    train.wait_running()
    assert train.status()["retryCount"] == 1
    assert train.status()["version"] > 2


def test_a_command_for_an_earlier_job_of_that_name_restarts_the_new_one(train: VolcanoJob) -> None:
    """The uid of the target is not looked at."""
    train.wait_consumed(train.command("RestartJob", uid=OTHER_UID))
    eventually(lambda: train.status().get("retryCount") == 1, "it is restarted")
    train.wait_running()


def test_a_command_is_taken_before_it_is_carried_out_and_leaves_only_events(
    train: VolcanoJob,
) -> None:
    train.wait_consumed(train.command("Nonsense"))
    eventually(lambda: {"CommandIssued", "ExecuteAction"} <= train.events(), "Events tell of it")
    assert train.phase() == "Running"
    assert not train.status().get("retryCount")


def test_a_command_for_an_absent_job_is_taken_without_a_word(train: VolcanoJob) -> None:
    train.wait_consumed(train.command("RestartJob", name="absent"))
    assert train.phase() == "Running"


def test_no_replacement_is_made_while_a_pod_on_a_dead_host_is_terminating(
    train: VolcanoJob, nodes: FakeNodes, kubelet: Kubelet
) -> None:
    """Volcano deletes gracefully only. Somebody has to force the pod, once its host is fenced."""
    node = train.node_of(1)
    kubelet.die(node)
    nodes.cordon(node)
    train.delete_pod(1)
    uid = train.uids()[train.pod(1)]
    eventually(lambda: train.counts() == {"running": 2, "terminating": 1}, "one is leaving")
    stays(lambda: train.uids()[train.pod(1)] == uid, "it is there", for_seconds=QUIET_SECONDS)
    train.delete_pod(1, grace_seconds=0)
    train.wait_running()
    assert train.node_of(1) != node


def test_a_restart_with_a_dead_host_leaves_one_member_out_until_it_is_forced(
    train: VolcanoJob, nodes: FakeNodes, kubelet: Kubelet
) -> None:
    node = train.node_of(0)
    kubelet.die(node)
    nodes.cordon(node)
    train.command("RestartJob")
    eventually(
        lambda: train.phase() == "Running" and train.counts() == {"running": 2, "terminating": 1},
        "the job runs without it",
    )
    train.delete_pod(0, grace_seconds=0)
    train.wait_running()


def test_deleting_a_job_takes_its_pods_and_its_group_along(
    train: VolcanoJob, probes: Probes
) -> None:
    probes.need("garbage collector")
    train.api.delete(train.path, propagationPolicy="Background").expect(200)
    eventually(lambda: not train.pods() and not train.groups(), "nothing of it is left")


def has_spent(job: VolcanoJob, retries: int) -> bool:
    return bool(job.status().get("retryCount") == retries)


def cordon_all(nodes: FakeNodes) -> None:
    for name in nodes.names:
        nodes.cordon(name)
