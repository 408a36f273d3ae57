"""Kubelets run pods as real processes and report what became of them."""

import json
import sys

import psutil
import pytest
from everstep_simcluster.cluster import Cluster, is_ready
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.resources import EVENTS, NODES, PODS, Object
from everstep_simcluster.store import Ref
from support.polling import eventually
from support.simcluster import FOREVER, NAMESPACE, phases, pod_manifest

POD = Ref(NAMESPACE, "one")


def start(cluster: Cluster, *command: str, **spec: object) -> None:
    cluster.objects.create(PODS, NAMESPACE, pod_manifest("one", command, **spec))


def container(cluster: Cluster) -> Object:
    pod = cluster.objects.find(PODS, POD) or {}
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    status: Object = statuses[0]
    return status


def ended(cluster: Cluster) -> Object:
    found: Object = container(cluster).get("state", {}).get("terminated", {})
    return found


def log(cluster: Cluster) -> str:
    path = cluster.log_path(POD)
    return path.read_text() if path is not None and path.exists() else ""


def members(cluster: Cluster) -> set[int]:
    return set().union(*(machine.processes() for machine in cluster.machines.values()))


async def test_output_goes_to_the_pods_log(cluster: Cluster) -> None:
    start(cluster, "sh", "-c", "echo out; echo err >&2")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Succeeded")
    assert log(cluster) == "out\nerr\n"


@pytest.mark.parametrize(
    ("script", "phase", "exit_code", "number", "reason"),
    [
        ("exit 0", "Succeeded", 0, None, "Completed"),
        ("exit 7", "Failed", 7, None, "Error"),
        ("kill -9 $$$$", "Failed", 137, 9, "Error"),
    ],
)
async def test_how_the_process_ends_is_what_the_status_says(
    script: str, phase: str, exit_code: int, number: int | None, reason: str, cluster: Cluster
) -> None:
    start(cluster, "sh", "-c", script)
    await cluster.wait_for(lambda: phases(cluster).get("one") == phase)
    end = ended(cluster)
    assert (end["exitCode"], end.get("signal"), end["reason"]) == (exit_code, number, reason)


async def test_a_command_that_cannot_start_fails_its_pod_and_says_why(cluster: Cluster) -> None:
    start(cluster, "/does/not/exist")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Failed")
    assert "/does/not/exist" in log(cluster) + ended(cluster).get("message", "")


async def test_a_pod_without_a_command_fails_and_says_why(cluster: Cluster) -> None:
    start(cluster)
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Failed")
    assert "no command" in ended(cluster)["message"]


async def test_variables_come_from_the_pod_itself(cluster: Cluster) -> None:
    fields = {
        "NAME": "metadata.name",
        "SPACE": "metadata.namespace",
        "UID": "metadata.uid",
        "NODE": "spec.nodeName",
        "ADDRESS": "status.podIP",
        "TEAM": "metadata.annotations['team']",
    }
    env = [{"name": n, "valueFrom": {"fieldRef": {"fieldPath": p}}} for n, p in fields.items()]
    env.append({"name": "GREETING", "value": "hello $(NAME)"})
    show = "import os, json; print(json.dumps(dict(os.environ)))"
    manifest = pod_manifest("one", (sys.executable, "-c", show))
    manifest["metadata"]["annotations"] = {"team": "llama"}
    manifest["spec"]["containers"][0]["env"] = env
    cluster.objects.create(PODS, NAMESPACE, manifest)
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Succeeded")
    seen, pod = json.loads(log(cluster)), cluster.objects.get(PODS, POD)
    assert {name: seen[name] for name in (*fields, "GREETING")} == {
        "NAME": "one",
        "SPACE": NAMESPACE,
        "UID": pod["metadata"]["uid"],
        "NODE": pod["spec"]["nodeName"],
        "ADDRESS": cluster.machines[pod["spec"]["nodeName"]].address,
        "TEAM": "llama",
        "GREETING": "hello one",
    }


async def test_a_deleted_pod_may_say_goodbye(cluster: Cluster) -> None:
    goodbye = cluster.folder / "goodbye"
    script = f"trap 'echo bye > {goodbye}; exit 0' TERM; echo up; while :; do sleep 0.02; done"
    start(cluster, "sh", "-c", script)
    await eventually(lambda: log(cluster) == "up\n")
    cluster.objects.delete(PODS, POD, DeleteOptions())
    assert phases(cluster) == {"one": "Terminating"}
    await cluster.wait_for(lambda: not phases(cluster))
    assert goodbye.read_text() == "bye\n"


async def test_a_pod_that_will_not_go_is_killed_when_its_grace_ends(cluster: Cluster) -> None:
    start(cluster, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done")
    await eventually(lambda: log(cluster) == "up\n")
    cluster.objects.delete(PODS, POD, DeleteOptions(grace_seconds=1))
    await cluster.wait_for(lambda: not phases(cluster))
    assert not members(cluster)


async def test_a_forced_deletion_kills_what_ran(cluster: Cluster) -> None:
    start(cluster, "sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.02; done")
    await eventually(lambda: log(cluster) == "up\n")
    cluster.objects.delete(PODS, POD, DeleteOptions(grace_seconds=0))
    assert not phases(cluster)
    await eventually(lambda: not members(cluster))


async def test_what_the_first_process_leaves_behind_goes_with_it(cluster: Cluster) -> None:
    start(cluster, "sh", "-c", "sleep 1000 & echo $!")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Succeeded")
    child = int(log(cluster))
    await eventually(lambda: not psutil.pid_exists(child))


async def test_a_container_starts_again_only_after_a_failure_when_so_asked(
    cluster: Cluster,
) -> None:
    marker = cluster.folder / "second"
    script = f"test -e {marker} && exit 0; touch {marker}; exit 3"
    start(cluster, "sh", "-c", script, restartPolicy="OnFailure")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Succeeded")
    assert container(cluster)["restartCount"] == 1
    assert container(cluster)["lastState"]["terminated"]["exitCode"] == 3


async def test_a_node_that_falls_silent_is_unknown_and_tainted_while_its_pods_stay_running(
    cluster: Cluster,
) -> None:
    start(cluster, *FOREVER, nodeName="node-1")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Running")
    cluster.faults.freeze("node-1")
    await cluster.wait_for(lambda: not is_ready(cluster.node("node-1")))
    await cluster.wait_for(lambda: len(cluster.node("node-1")["spec"].get("taints", ())) == 2)
    taints = [(t["key"], t["effect"]) for t in cluster.node("node-1")["spec"]["taints"]]
    unreachable = "node.kubernetes.io/unreachable"
    assert taints == [(unreachable, "NoSchedule"), (unreachable, "NoExecute")]
    assert phases(cluster) == {"one": "Running"}
    assert not is_ready(cluster.objects.get(PODS, POD))
    cluster.faults.thaw("node-1")
    await cluster.wait_for(lambda: "taints" not in cluster.node("node-1")["spec"])
    await cluster.wait_for(lambda: is_ready(cluster.objects.get(PODS, POD)))


async def test_an_unreachable_node_loses_its_pods_when_their_toleration_ends(
    cluster: Cluster,
) -> None:
    toleration = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 0.1,
    }
    start(cluster, *FOREVER, nodeName="node-1", tolerations=[toleration])
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Running")
    cluster.faults.freeze("node-1")
    await cluster.wait_for(lambda: phases(cluster) == {"one": "Terminating"})
    conditions = cluster.objects.get(PODS, POD)["status"]["conditions"]
    assert "DisruptionTarget" in {condition["type"] for condition in conditions}


async def test_a_node_that_comes_back_in_time_keeps_its_pods(cluster: Cluster) -> None:
    start(cluster, *FOREVER, nodeName="node-1")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Running")
    cluster.faults.freeze("node-1")
    await cluster.wait_for(lambda: len(cluster.node("node-1")["spec"].get("taints", ())) == 2)
    cluster.faults.thaw("node-1")
    await cluster.wait_for(
        lambda: any(
            event["message"].startswith("Cancelling deletion of Pod")
            for event in cluster.objects.every(EVENTS)
        )
    )
    assert phases(cluster) == {"one": "Running"}


async def test_a_no_execute_taint_drives_out_who_does_not_tolerate_it(cluster: Cluster) -> None:
    start(cluster, *FOREVER, nodeName="node-1")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Running")
    node = cluster.node("node-1")
    taint = {"key": "everstep.dev/quarantined", "effect": "NoExecute"}
    spec = {**node["spec"], "taints": [taint]}
    cluster.objects.store.replace(NODES, {**node, "spec": spec})
    await cluster.wait_for(lambda: not phases(cluster))


async def test_closing_the_cluster_leaves_no_process_and_no_file(cluster: Cluster) -> None:
    start(cluster, "sh", "-c", "trap '' TERM; sleep 1000 & while :; do sleep 1; done")
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Running")
    await eventually(lambda: len(members(cluster)) >= 3)
    left = members(cluster)
    await cluster.__aexit__(None, None, None)
    await eventually(lambda: not any(psutil.pid_exists(pid) for pid in left))
    assert not cluster.folder.exists()
