"""Where pods fit: free devices, cordons and taints. Pure functions of nodes and pods."""

from collections import Counter
from collections.abc import Iterable

from everstep_simcluster.objects import condition_of
from everstep_simcluster.resources import Object

_HINDERING = ("NoSchedule", "NoExecute")


def needs_of(pod: Object) -> Counter[str]:
    """Countable devices (GPUs and their like) that the pod's containers ask for."""
    needs: Counter[str] = Counter()
    for container in pod["spec"]["containers"]:
        requests = (container.get("resources") or {}).get("requests") or {}
        needs.update(_countable(requests))
    return needs


def free_devices(node: Object, pods: Iterable[Object]) -> Counter[str]:
    """What is left on ``node`` beside the bound ``pods`` that have not ended.

    A pod that is being deleted still holds its devices, as it does on a dead node.
    """
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    free = Counter(_countable(allocatable))
    for pod in pods:
        if pod["spec"].get("nodeName") != node["metadata"]["name"]:
            continue
        if pod["status"].get("phase") not in ("Succeeded", "Failed"):
            free.subtract(needs_of(pod))
            free["pods"] -= 1
    return free


def _countable(amounts: Object) -> dict[str, int]:
    """Devices and pods; of processors and memory every node here has plenty."""
    return {
        name: int(amount)
        for name, amount in amounts.items()
        if ("/" in name or name == "pods") and str(amount).isdecimal()
    }


def hindrance(node: Object, pod: Object, free: Counter[str]) -> str | None:
    """Why ``pod`` cannot go to ``node``, in the scheduler's words; None when it can."""
    if node["spec"].get("unschedulable"):
        return "node(s) were unschedulable"
    ready = condition_of(node, "Ready")
    if ready is None or ready["status"] != "True":
        return "node(s) were not ready"
    for taint in node["spec"].get("taints") or ():
        if taint["effect"] in _HINDERING and not tolerates(pod, taint):
            return "node(s) had untolerated taint(s)"
    selector = pod["spec"].get("nodeSelector") or {}
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return "node(s) didn't match Pod's node affinity/selector"
    for name, amount in (needs_of(pod) + Counter({"pods": 1})).items():
        if free[name] < amount:
            return f"Insufficient {name}"
    return None


def tolerates(pod: Object, taint: Object) -> bool:
    """Whether one of the pod's tolerations covers ``taint``, however long for."""
    return any(covers(toleration, taint) for toleration in pod["spec"].get("tolerations") or ())


def covers(toleration: Object, taint: Object) -> bool:
    """Whether a toleration speaks of that taint."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same_key = bool(toleration.get("key") == taint["key"])
    return same_key and bool(toleration.get("value", "") == taint.get("value", ""))


def explain(nodes: int, hindrances: Counter[str]) -> str:
    """Why a pod fits on none of ``nodes`` nodes, in the sentence that its condition carries."""
    told = ", ".join(f"{count} {why}" for why, count in sorted(hindrances.items(), key=_by_kind))
    return f"0/{nodes} nodes are unavailable: {told}."


def _by_kind(item: tuple[str, int]) -> tuple[bool, str]:
    return item[0].startswith("Insufficient"), item[0]
