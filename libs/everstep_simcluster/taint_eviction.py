"""NoExecute taints: pods that do not tolerate one are deleted, at once or after their time."""

from everstep_simcluster.clock import timestamp
from everstep_simcluster.event_recorder import record_event
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.objects import Objects, with_condition
from everstep_simcluster.resources import NODES, PODS, Object
from everstep_simcluster.scheduling_rules import covers
from everstep_simcluster.store import Change, Ref, ref_of
from everstep_simcluster.timers import Timers
from everstep_simcluster.work_queue import WorkQueue


class TaintEviction:
    """Deletes pods (gracefully) from nodes whose NoExecute taints they do not tolerate."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.queue: WorkQueue[str] = WorkQueue(self._reconcile)
        self.timers: Timers[tuple[Ref, str]] = Timers(self._evict)
        objects.listen(self._hear)

    def _hear(self, change: Change) -> None:
        if change.resource is NODES:
            self.queue.add(change.ref.name)
        elif change.resource is PODS and change.object["spec"].get("nodeName"):
            self.queue.add(change.object["spec"]["nodeName"])

    def _reconcile(self, name: str) -> None:
        node = self._objects.find(NODES, Ref("", name))
        taints = [
            taint
            for taint in ((node or {}).get("spec") or {}).get("taints") or ()
            if taint["effect"] == "NoExecute"
        ]
        for pod in self._objects.every(PODS):
            if pod["spec"].get("nodeName") == name and "deletionTimestamp" not in pod["metadata"]:
                self._judge(pod, taints)

    def _judge(self, pod: Object, taints: list[Object]) -> None:
        key = (ref_of(pod), pod["metadata"]["uid"])
        seconds = _stay_seconds(pod, taints)
        if seconds is None:
            if key in self.timers:
                self.timers.cancel(key)
                message = f"Cancelling deletion of Pod {key[0].namespace}/{key[0].name}"
                record_event(self._objects, pod, "TaintManagerEviction", message)
        elif seconds == 0:
            self.timers.cancel(key)
            self._evict(key)
        elif key not in self.timers:
            self.timers.set(key, seconds)

    def _evict(self, key: tuple[Ref, str]) -> None:
        ref, uid = key
        pod = self._objects.find(PODS, ref)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        message = f"Marking for deletion Pod {ref.namespace}/{ref.name}"
        record_event(self._objects, pod, "TaintManagerEviction", message)
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "lastProbeTime": None,
            "lastTransitionTime": timestamp(),
            "reason": "DeletionByTaintManager",
            "message": "Taint manager: deleting due to NoExecute taint",
        }
        self._objects.set_status(PODS, ref, with_condition(pod, target)["status"])
        self._objects.delete(PODS, ref, DeleteOptions(uid=uid))


def _stay_seconds(pod: Object, taints: list[Object]) -> float | None:
    """How long the pod may stay with these taints: None for ever, 0 not at all."""
    limits: list[float] = []
    for taint in taints:
        covering = [t for t in pod["spec"].get("tolerations") or () if covers(t, taint)]
        if not covering:
            return 0
        limits += [
            max(float(toleration["tolerationSeconds"]), 0)
            for toleration in covering
            if toleration.get("tolerationSeconds") is not None
        ]
    return min(limits, default=None)
