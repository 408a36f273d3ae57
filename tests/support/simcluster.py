"""Manifests for the simulated cluster, and ways to see what became of them."""

from collections.abc import Callable, Sequence
from typing import Any

from everstep_simcluster.cluster import Cluster
from everstep_simcluster.resources import JOBS, Object
from everstep_simcluster.store import Ref

NAMESPACE = "training"
FOREVER = ("sleep", "1000")


def job_manifest(
    name: str = "train", *, replicas: int = 3, min_available: int = 2,
    command: Sequence[str] = FOREVER, **spec: Any,
) -> Object:  # fmt: skip
    """A Volcano Job of one task ``worker``; every pod takes all GPUs of a node."""
    container = {
        "name": "trainer",
        "image": "registry.invalid/trainer:1",
        "command": list(command),
        "resources": {"limits": {"nvidia.com/gpu": 8}},
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
    }
    task = {
        "name": "worker",
        "replicas": replicas,
        "minAvailable": min_available,
        "template": {"spec": pod},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minAvailable": min_available, "tasks": [task], **spec},
    }


def pod_manifest(name: str, command: Sequence[str], **spec: Any) -> Object:
    """A pod that belongs to nobody."""
    container = {"name": "main", "image": "registry.invalid/main:1", "command": list(command)}
    pod = {"restartPolicy": "Never", "containers": [container], **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": pod,
    }


def job_status(cluster: Cluster, name: str = "train") -> Object:
    """The Job's status; empty before it has one."""
    job = cluster.objects.find(JOBS, Ref(NAMESPACE, name)) or {}
    status: Object = job.get("status") or {}
    return status


def job_phase(cluster: Cluster, name: str = "train") -> str:
    """The Job's phase; empty before it has one."""
    return str(job_status(cluster, name).get("state", {}).get("phase", ""))


def phases(cluster: Cluster) -> dict[str, str]:
    """Each pod's phase by name; ``Terminating`` for one that is being deleted."""
    return {
        pod["metadata"]["name"]: "Terminating"
        if "deletionTimestamp" in pod["metadata"]
        else pod["status"]["phase"]
        for pod in cluster.pods(NAMESPACE)
    }


def running(cluster: Cluster, count: int) -> Callable[[], bool]:
    """Whether exactly ``count`` pods are Running."""
    return lambda: sum(phase == "Running" for phase in phases(cluster).values()) == count


def uids(cluster: Cluster) -> dict[str, str]:
    """Each pod's uid by name."""
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.pods(NAMESPACE)}


def node_of(cluster: Cluster, pod: str) -> str:
    """The node that the pod was bound to."""
    found = next(p for p in cluster.pods(NAMESPACE) if p["metadata"]["name"] == pod)
    return str(found["spec"]["nodeName"])
