"""The node controller: nodes that stop reporting turn Unknown, and taints follow their state."""

from everstep_simcluster.clock import timestamp
from everstep_simcluster.event_recorder import record_event
from everstep_simcluster.objects import Objects, condition_of, with_condition
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import LEASES, NODES, PODS, Object
from everstep_simcluster.store import Change, Ref, ref_of
from everstep_simcluster.timers import Timers
from everstep_simcluster.work_queue import WorkQueue

LEASE_NAMESPACE = "kube-node-lease"
"""Where kubelets keep the leases that are their heartbeats."""

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_OWNED_KEYS = (UNREACHABLE, NOT_READY, UNSCHEDULABLE)


class NodeController:
    """Watches over heartbeats and keeps the taints of every node in step with its conditions.

    Args:
        objects: The cluster.
        grace_seconds: Silence after which a node's Ready condition turns Unknown; the real
            controller waits 40 s.
    """

    def __init__(self, objects: Objects, *, grace_seconds: float) -> None:
        self._objects = objects
        self._grace_seconds = grace_seconds
        self.queue: WorkQueue[str] = WorkQueue(self._reconcile)
        self.timers: Timers[str] = Timers(self._went_silent)
        objects.listen(self._hear)

    def _hear(self, change: Change) -> None:
        name = change.ref.name
        if change.resource is NODES:
            if change.type == "DELETED":
                self.timers.cancel(name)
            else:
                if change.type == "ADDED":
                    self.timers.set(name, self._grace_seconds)
                self.queue.add(name)
        elif _is_heartbeat(change):
            self.timers.set(name, self._grace_seconds)

    def _went_silent(self, name: str) -> None:
        node = self._objects.find(NODES, Ref("", name))
        if node is None:
            return
        unknown = {
            "type": "Ready",
            "status": "Unknown",
            "lastHeartbeatTime": (condition_of(node, "Ready") or {}).get("lastHeartbeatTime"),
            "lastTransitionTime": timestamp(),
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
        }
        self._objects.set_status(NODES, Ref("", name), with_condition(node, unknown)["status"])
        for pod in self._objects.every(PODS):
            if pod["spec"].get("nodeName") == name:
                self._mark_not_ready(pod)

    def _mark_not_ready(self, pod: Object) -> None:
        """The pod goes on as Running; only its Ready condition says that nobody knows."""
        ready = condition_of(pod, "Ready")
        if ready is None or ready["status"] != "True":
            return
        changed = {**ready, "status": "False", "lastTransitionTime": timestamp()}
        self._objects.set_status(PODS, ref_of(pod), with_condition(pod, changed)["status"])
        record_event(self._objects, pod, "NodeNotReady", "Node is not ready", kind="Warning")

    def _reconcile(self, name: str) -> None:
        node = self._objects.find(NODES, Ref("", name))
        if node is None:
            return
        taints: list[Object] = node["spec"].get("taints") or []
        foreign = [taint for taint in taints if taint["key"] not in _OWNED_KEYS]
        owned = [taint for taint in taints if taint["key"] in _OWNED_KEYS]
        kept = [taint for taint in owned if _kind(taint) in _wanted(node)]
        present = {_kind(taint) for taint in kept}
        added = [_new_taint(*kind) for kind in _wanted(node) if kind not in present]
        if len(kept) != len(owned) or added:
            patch = Patch(MERGE_PATCH, {"spec": {"taints": [*foreign, *kept, *added] or None}})
            self._objects.patch(NODES, Ref("", name), patch)


def _is_heartbeat(change: Change) -> bool:
    renewed = change.resource is LEASES and change.type != "DELETED"
    return renewed and change.ref.namespace == LEASE_NAMESPACE


def _wanted(node: Object) -> list[tuple[str, str]]:
    """The (key, effect) pairs that this controller wants on ``node``."""
    ready = condition_of(node, "Ready")
    wanted = []
    if ready is None:
        wanted.append((NOT_READY, "NoSchedule"))
    elif ready["status"] != "True":
        key = UNREACHABLE if ready["status"] == "Unknown" else NOT_READY
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    if node["spec"].get("unschedulable"):
        wanted.append((UNSCHEDULABLE, "NoSchedule"))
    return wanted


def _kind(taint: Object) -> tuple[str, str]:
    return taint["key"], taint["effect"]


def _new_taint(key: str, effect: str) -> Object:
    return {"key": key, "effect": effect, "timeAdded": timestamp()}
