"""Pods that come to take the place of others: whole nodes, at a priority above every job's."""

from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.objects import Objects
from everstep_simcluster.resources import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, Object
from everstep_simcluster.store import Ref

NAMESPACE = "urgent"
PRIORITY_CLASS = "urgent"
PRIORITY = 1_000_000
_COMMAND = ["sleep", "infinity"]


def want(objects: Objects, node: str) -> None:
    """Create the pod that wants ``node`` for itself, unless it is there."""
    if objects.find(NAMESPACES, Ref("", NAMESPACE)) is None:
        objects.create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}})
    if objects.find(PRIORITY_CLASSES, Ref("", PRIORITY_CLASS)) is None:
        body = {"metadata": {"name": PRIORITY_CLASS}, "value": PRIORITY}
        objects.create(PRIORITY_CLASSES, "", body)
    if objects.find(PODS, Ref(NAMESPACE, node)) is None:
        objects.create(PODS, NAMESPACE, _pod(objects.get(NODES, Ref("", node))))


def relent(objects: Objects, node: str) -> None:
    """Delete that pod, at once."""
    if objects.find(PODS, Ref(NAMESPACE, node)) is not None:
        objects.delete(PODS, Ref(NAMESPACE, node), DeleteOptions(grace_seconds=0))


def _pod(node: Object) -> Object:
    devices = {
        name: amount for name, amount in node["status"]["allocatable"].items() if "/" in name
    }
    container = {
        "name": "urgent",
        "image": "registry.invalid/urgent:1",
        "command": _COMMAND,
        "resources": {"limits": devices},
    }
    name = node["metadata"]["name"]
    return {
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "priorityClassName": PRIORITY_CLASS,
            "nodeSelector": {"kubernetes.io/hostname": name},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }
