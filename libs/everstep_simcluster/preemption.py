"""Preemption: a gang that cannot start takes the place of pods of a lower priority.

As Volcano's ``preempt`` action does it: no gang loses members it needs for its minimum, a victim is
deleted like any other pod, and its place is only free once its kubelet has let it go.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from everstep_simcluster.clock import timestamp
from everstep_simcluster.event_recorder import record_event
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.objects import Objects, condition_of, with_condition
from everstep_simcluster.resources import PODS, Object
from everstep_simcluster.scheduling_rules import free_devices, hindrance, needs_of
from everstep_simcluster.store import Ref, ref_of

_CONTEXT = "preempt"


@dataclass
class Occupied:
    """The pods that hold places and how many each gang can spare, while one cycle looks."""

    pods: list[Object]
    spare: Counter[Ref]
    gang_of: dict[Ref, Ref]
    chosen: set[Ref] = field(default_factory=set)

    def victims_on(self, node: Object, pod: Object) -> list[Object] | None:
        """Who has to leave ``node`` for ``pod``, lowest priority first; None: that does not help.

        Pods that are leaving already count as gone.
        """
        name = node["metadata"]["name"]
        here = [one for one in self.pods if one["spec"].get("nodeName") == name]
        staying = [one for one in here if not _leaves(one) and ref_of(one) not in self.chosen]
        spare = Counter(self.spare)
        victims: list[Object] = []
        for candidate in [None, *sorted(staying, key=priority_of)]:
            if candidate is not None and not self._may_leave(candidate, pod, spare):
                continue
            if candidate is not None:
                victims.append(candidate)
            rest = [one for one in staying if one not in victims]
            if hindrance(node, pod, free_devices(node, rest)) is None:
                return victims
        return None

    def take(self, victims: Iterable[Object]) -> None:
        """Count them out of their gangs."""
        for victim in victims:
            self.chosen.add(ref_of(victim))
            self.spare[self.gang_of.get(ref_of(victim), ref_of(victim))] -= 1

    def _may_leave(self, candidate: Object, pod: Object, spare: Counter[Ref]) -> bool:
        if priority_of(candidate) >= priority_of(pod):
            return False
        gang = self.gang_of.get(ref_of(candidate))
        if gang is None:
            return True
        spare[gang] -= 1
        return spare[gang] >= 0


def priority_of(pod: Object) -> int:
    """The number of the pod's priority class."""
    return int(pod["spec"].get("priority") or 0)


def evict_for(objects: Objects, victim: Object) -> None:
    """Delete ``victim`` as Volcano's scheduler does: an Event, not ready, a plain deletion."""
    message = f"Pod is evicted, because of {_CONTEXT}"
    record_event(objects, victim, "Evict", message, kind="Warning")
    ready = condition_of(victim, "Ready") or {"type": "Ready", "lastProbeTime": None}
    evicted = {
        **ready,
        "status": "False",
        "reason": "Evict",
        "message": message,
        "lastTransitionTime": timestamp(),
    }
    objects.set_status(PODS, ref_of(victim), with_condition(victim, evicted)["status"])
    objects.delete(PODS, ref_of(victim), DeleteOptions(uid=victim["metadata"]["uid"]))


def places_by_force(
    nodes: Iterable[Object], waiting: Iterable[Object], occupied: Occupied, *, needed: int
) -> list[Object]:
    """The victims that make ``needed`` of the ``waiting`` pods fit; none where that cannot be.

    One node a pod: a pod that is waiting for a victim to leave keeps its claim on the node.
    """
    claimed: set[str] = set()
    victims: list[Object] = []
    placed = 0
    for pod in waiting:
        if placed == needed or not needs_of(pod):
            break
        for node in nodes:
            name = node["metadata"]["name"]
            leaving = None if name in claimed else occupied.victims_on(node, pod)
            if leaving is not None:
                claimed.add(name)
                occupied.take(leaving)
                victims += leaving
                placed += 1
                break
    return victims if placed >= needed else []


def _leaves(pod: Object) -> bool:
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return ended or "deletionTimestamp" in pod["metadata"]
