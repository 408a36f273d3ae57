"""The gang scheduler: a PodGroup's pods get nodes together, when at least minMember can run."""

from collections import Counter
from dataclasses import dataclass, field

from everstep_simcluster.clock import timestamp
from everstep_simcluster.event_recorder import record_event
from everstep_simcluster.objects import Objects, condition_of, with_condition
from everstep_simcluster.preemption import Occupied, evict_for, places_by_force, priority_of
from everstep_simcluster.resources import NODES, POD_GROUPS, PODS, Object
from everstep_simcluster.scheduling_rules import explain, free_devices, hindrance, needs_of
from everstep_simcluster.store import Change, Ref, ref_of
from everstep_simcluster.volcano_rules import GROUP_NAME
from everstep_simcluster.work_queue import WorkQueue

SCHEDULERS = ("volcano", "default-scheduler")
"""Whose pods it binds; it stands for both."""

_EVERYTHING = ""  # the only key: a cycle looks at all groups and nodes


@dataclass
class _Room:
    """Nodes and what is free on them while one cycle hands it out."""

    nodes: list[Object]
    free: dict[str, Counter[str]]

    def place(self, pod: Object) -> str | None:
        """Take room for ``pod``; the node's name, or None when it fits nowhere."""
        for node in self.nodes:
            name = node["metadata"]["name"]
            if hindrance(node, pod, self.free[name]) is None:
                self.free[name].subtract(needs_of(pod))
                self.free[name]["pods"] -= 1
                return str(name)
        return None

    def why_not(self, pod: Object) -> str:
        """Why ``pod`` fits nowhere, counted over the nodes."""
        reasons = Counter(
            why
            for node in self.nodes
            if (why := hindrance(node, pod, self.free[node["metadata"]["name"]]))
        )
        return explain(len(self.nodes), reasons)


@dataclass
class _Gang:
    """Pods that are scheduled together, and what became of those that wait for a node."""

    min_member: int
    group: Object | None
    pods: list[Object] = field(default_factory=list)
    placed: dict[Ref, str] = field(default_factory=dict)

    @property
    def waiting(self) -> list[Object]:
        return [pod for pod in self.pods if _waits_for_node(pod)]

    @property
    def priority(self) -> int:
        return max(map(priority_of, self.pods), default=0)

    @property
    def in_place(self) -> int:
        """Members that hold a node now; those being deleted do not count."""
        return sum(
            bool(pod["spec"].get("nodeName"))
            and "deletionTimestamp" not in pod["metadata"]
            and pod["status"].get("phase") in ("Pending", "Running", "Succeeded")
            for pod in self.pods
        )

    @property
    def ready(self) -> bool:
        return self.in_place + len(self.placed) >= self.min_member


class GangScheduler:
    """Binds pods. A cycle runs after whatever may have made room or asked for it."""

    def __init__(self, objects: Objects, *, period_seconds: float = 0.0) -> None:
        self._objects = objects
        self.queue: WorkQueue[str] = WorkQueue(self._cycle, pause_seconds=period_seconds)
        objects.listen(self._hear)

    def _hear(self, change: Change) -> None:
        if change.resource in (NODES, PODS, POD_GROUPS):
            self.queue.add(_EVERYTHING)

    def _cycle(self, _: str) -> None:
        pods = self._objects.every(PODS)
        nodes = self._objects.every(NODES)
        free = {node["metadata"]["name"]: free_devices(node, pods) for node in nodes}
        room = _Room(nodes, free)
        gangs = self._gangs(pods)
        for gang in gangs:
            before = {name: Counter(left) for name, left in room.free.items()}
            for pod in gang.waiting:
                node = room.place(pod)
                if node is not None:
                    gang.placed[ref_of(pod)] = node
            reasons = {ref_of(pod): room.why_not(pod) for pod in gang.waiting}
            if gang.ready:
                for ref, node in gang.placed.items():
                    self._objects.bind(ref, node)
            else:
                room.free = before
            self._explain(gang, reasons)
            self._write_group(gang)
        self._preempt(nodes, pods, gangs)

    def _preempt(self, nodes: list[Object], pods: list[Object], gangs: list[_Gang]) -> None:
        """Make room, with the next cycles in mind, for gangs that could not start."""
        groups = {ref_of(g.group): g for g in gangs if g.group is not None}
        spare = Counter({ref: max(g.in_place - g.min_member, 0) for ref, g in groups.items()})
        gang_of = {ref_of(pod): ref for ref, g in groups.items() for pod in g.pods}
        occupied = Occupied([p for p in pods if p["spec"].get("nodeName")], spare, gang_of)
        for gang in gangs:
            if gang.ready or not gang.priority:
                continue
            needed = gang.min_member - gang.in_place
            for victim in places_by_force(nodes, gang.waiting, occupied, needed=needed):
                evict_for(self._objects, victim)

    def _gangs(self, pods: list[Object]) -> list[_Gang]:
        """PodGroups in the order of their making, then pods that belong to none, one by one.

        Those of a higher priority come first.
        """
        groups = sorted(self._objects.every(POD_GROUPS), key=_made)
        gangs = {ref_of(group): _Gang(group["spec"].get("minMember", 1), group) for group in groups}
        alone = []
        for pod in sorted(pods, key=_place_in_gang):
            name = (pod["metadata"].get("annotations") or {}).get(GROUP_NAME, "")
            gang = gangs.get(Ref(pod["metadata"]["namespace"], name))
            if gang is not None:
                gang.pods.append(pod)
            elif _waits_for_node(pod):
                alone.append(_Gang(1, None, [pod]))
        return sorted([*gangs.values(), *alone], key=lambda gang: -gang.priority)

    def _explain(self, gang: _Gang, reasons: dict[Ref, str]) -> None:
        for pod in gang.waiting:
            ref = ref_of(pod)
            if gang.ready and ref in gang.placed:
                continue
            message = reasons[ref]
            if ref in gang.placed:
                message = (
                    f"Pod {ref.namespace}/{ref.name} can possibly be assigned to "
                    f"{gang.placed[ref]}, once minAvailable is satisfied"
                )
            before = condition_of(pod, "PodScheduled")
            if before is not None and before.get("message") == message:
                continue
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": timestamp(),
                "reason": "Unschedulable",
                "message": message,
            }
            self._objects.set_status(PODS, ref, with_condition(pod, condition)["status"])
            record_event(self._objects, pod, "FailedScheduling", message, kind="Warning")

    def _write_group(self, gang: _Gang) -> None:
        if gang.group is None:
            return
        counted = Counter(
            pod["status"].get("phase")
            for pod in gang.pods
            if "deletionTimestamp" not in pod["metadata"]
        )
        before = gang.group.get("status") or {}
        status = {
            "phase": _group_phase(gang, before.get("phase", "Pending"), counted["Running"]),
            "conditions": _group_conditions(gang, before.get("conditions") or []),
            **{name.lower(): counted[name] for name in ("Running", "Succeeded", "Failed")
               if counted[name]},
        }  # fmt: skip
        self._objects.set_status(POD_GROUPS, ref_of(gang.group), status)


def _waits_for_node(pod: Object) -> bool:
    if pod["spec"].get("schedulerName") not in SCHEDULERS:
        return False
    return not pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]


def _made(group: Object) -> tuple[str, str]:
    return group["metadata"]["creationTimestamp"], group["metadata"]["name"]


def _place_in_gang(pod: Object) -> tuple[int, str]:
    index = (pod["metadata"].get("annotations") or {}).get("volcano.sh/task-index", "0")
    return int(index) if index.isdecimal() else 0, pod["metadata"]["name"]


def _group_phase(gang: _Gang, before: str, running: int) -> str:
    if running and not gang.ready and gang.waiting:
        return "Unknown"
    if gang.pods and gang.in_place >= gang.min_member:
        return "Running"
    return "Inqueue" if before in ("Pending", "Inqueue") else "Pending"


def _group_conditions(gang: _Gang, before: list[Object]) -> list[Object]:
    """Scheduled and Unschedulable, each kept once it was set, as Volcano leaves them."""
    if not gang.waiting:
        return before
    kind = "Scheduled" if gang.ready else "Unschedulable"
    if any(condition["type"] == kind for condition in before):
        return before
    waiting, total = len(gang.waiting) - len(gang.placed), len(gang.pods)
    condition = {
        "type": kind,
        "status": "True",
        "lastTransitionTime": timestamp(),
        "reason": "tasks in gang are ready to be scheduled" if gang.ready else "NotEnoughResources",
        "message": "" if gang.ready else f"{waiting}/{total} tasks in gang unschedulable",
    }
    return [*before, condition]
