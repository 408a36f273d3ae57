"""What the cluster holds, as last heard, and who of a job sits where.

Objects come by the tens of thousands and change all the time, so that this is changed in place and
indexed by what is asked of it. What follows from it is for `cluster_decide`, which changes nothing.
"""

from dataclasses import dataclass
from typing import Final

from everstep_contract.clients import AgentClient
from everstep_contract.identity import JobKey, Member
from everstep_contract.record import JobRecord
from everstep_kube.objects import JobState, NodeState, PodState
from everstep_kube.pod_words import ASKED_TO_GO

from everstep_node_watcher.model import Policy

REMEMBERED_LIMIT: Final = 16_384
"""Deleted pods and deleted nodes that are remembered; older ones have been replaced long since."""

State = PodState | NodeState | JobState
Seats = dict[AgentClient, Member]


@dataclass(frozen=True, slots=True)
class Trouble:
    """A node that is not Ready, or was not a moment ago; instants in monotonic seconds.

    ready_since: since when it is Ready again; None while it is not.
    """

    since: float
    ready_since: float | None = None


@dataclass(frozen=True, slots=True)
class Reborn:
    """Since when a member's node is known to run another boot than the one it sat on."""

    since: float
    old_boot: str
    new_boot: str


class ClusterView:
    """Pods, nodes and Jobs, and the seats of all records.

    Instants are since when something is so, in monotonic seconds. planned: uids of pods that were
    asked to go while their nodes were well. flaps: times that a node's trouble passed before it
    counted.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeState] = {}
        self.pods: dict[str, PodState] = {}
        self.jobs: dict[str, JobState] = {}
        self.troubles: dict[str, Trouble] = {}
        self.out_of_service: dict[str, float] = {}
        self.deleted_nodes: dict[str, tuple[NodeState, float]] = {}
        self.terminated_pods: dict[str, float] = {}
        self.deleted_pods: dict[str, float] = {}
        self.planned: set[str] = set()
        self.flaps = 0
        self.reborn: dict[AgentClient, Reborn] = {}
        self._seats: dict[JobKey, Seats] = {}
        self._on_node: dict[str, Seats] = {}
        self._in_pod: dict[str, Seats] = {}
        self._boots: dict[AgentClient, str] = {}

    def is_seated(self, client: AgentClient) -> bool:
        """Whether this incarnation is a member of its job."""
        return client in self._seats.get(client.job, {})

    def member(self, client: AgentClient) -> Member | None:
        """Who has the seat."""
        return self._seats.get(client.job, {}).get(client)

    def get(self, key: str) -> State | None:
        """The object of this uid, or the node of this name."""
        return self.pods.get(key) or self.nodes.get(key) or self.jobs.get(key)

    def concerns(self, state: State) -> bool:
        """Whether members of a job live in this pod or on this node."""
        match state:
            case PodState():
                return bool(self.in_pod(state.uid))
            case NodeState():
                return bool(self.on_node(state.name))
            case JobState():
                return False

    def on_node(self, node: str) -> Seats:
        """The members that sit on a node."""
        return self._on_node.get(node, {})

    def in_pod(self, uid: str) -> Seats:
        """The members that live in a pod."""
        return self._in_pod.get(uid, {})

    def seat(self, job: JobKey, record: JobRecord | None) -> None:
        """Watch the members that a record lists, and no others."""
        watched = record is not None and record.phase != "ended" and record.state != "stop"
        seats = record.seats if record is not None and watched else ()
        new = {AgentClient(job, seat.member.incarnation): seat.member for seat in seats}
        old = self._seats.pop(job, {})
        for client in old.keys() - new.keys():
            self._unseat(client, old[client])
        if new:
            self._seats[job] = new
        for client in new.keys() - old.keys():
            self._take_seat(client, new[client])

    def take(self, state: State, now: float, *, deleted: bool, policy: Policy) -> State | None:
        """Take in an object's newest state; what it was before."""
        match state:
            case PodState():
                return self._take_pod(state, now, deleted=deleted)
            case NodeState():
                return self._take_node(state, now, deleted=deleted, policy=policy)
            case JobState():
                before = self.jobs.pop(state.uid, None)
                if not deleted:
                    self.jobs[state.uid] = state
                return before

    def well_again(self, now: float, policy: Policy) -> None:
        """Forget the troubles of nodes that have been Ready for long enough."""
        over = [
            node
            for node, trouble in self.troubles.items()
            if trouble.ready_since is not None
            and now - trouble.ready_since >= policy.ready_again_seconds
        ]
        for node in over:
            del self.troubles[node]

    def _unseat(self, client: AgentClient, member: Member) -> None:
        for index, key in ((self._on_node, member.node), (self._in_pod, member.pod_uid)):
            seats = index.get(key, {})
            seats.pop(client, None)
            if not seats:
                index.pop(key, None)
        self._boots.pop(client, None)
        self.reborn.pop(client, None)

    def _take_seat(self, client: AgentClient, member: Member) -> None:
        self._on_node.setdefault(member.node, {})[client] = member
        self._in_pod.setdefault(member.pod_uid, {})[client] = member
        node = self.nodes.get(member.node)
        if node is not None and node.boot_id:
            self._boots[client] = node.boot_id

    def _take_pod(self, state: PodState, now: float, *, deleted: bool) -> PodState | None:
        before = self.pods.pop(state.uid, None)
        if not deleted:
            self.pods[state.uid] = state
        if state.cause in ASKED_TO_GO and self._is_planned(state, before):
            self.planned.add(state.uid)
        if deleted:
            since = self.terminated_pods.pop(state.uid, now)
            self.deleted_pods.setdefault(state.uid, since)
            self._forget_oldest_pods()
        elif state.terminated:
            self.terminated_pods.setdefault(state.uid, now)
        return before

    def _is_planned(self, state: PodState, before: PodState | None) -> bool:
        """Whether somebody asked it to go, rather than cleared away what had failed already."""
        failed = before is not None and before.terminated and before.cause not in ASKED_TO_GO
        node = self.nodes.get(state.node)
        well = not state.node or (node is not None and node.ready == "True")
        return well and not failed

    def _forget_oldest_pods(self) -> None:
        while len(self.deleted_pods) > REMEMBERED_LIMIT:
            oldest = next(iter(self.deleted_pods))
            del self.deleted_pods[oldest]
            self.planned.discard(oldest)

    def _take_node(
        self, state: NodeState, now: float, *, deleted: bool, policy: Policy
    ) -> NodeState | None:
        before = self.nodes.get(state.name)
        if deleted:
            if before is None or before.uid == state.uid:  # else its successor is here already
                self.nodes.pop(state.name, None)
                self.troubles.pop(state.name, None)
                self.out_of_service.pop(state.name, None)
                self._remember_deleted(state, now)
            return before
        last, _ = self.deleted_nodes.pop(state.name, (before, 0.0))
        self.nodes[state.name] = state
        self._note_boot(last, state, now)
        if state.out_of_service:
            self.out_of_service.setdefault(state.name, now)
        else:
            self.out_of_service.pop(state.name, None)
        self._note_trouble(state, now, policy)
        return before

    def _note_trouble(self, state: NodeState, now: float, policy: Policy) -> None:
        before = self.troubles.pop(state.name, None)
        trouble = trouble_after(before, now, ready=state.ready == "True", policy=policy)
        if trouble is None:
            return
        self.troubles[state.name] = trouble
        passed = before is not None and before.ready_since is None and trouble.ready_since == now
        if passed and now - trouble.since < policy.not_ready_seconds:
            self.flaps += 1

    def _remember_deleted(self, state: NodeState, now: float) -> None:
        while len(self.deleted_nodes) >= REMEMBERED_LIMIT:
            del self.deleted_nodes[next(iter(self.deleted_nodes))]
        self.deleted_nodes[state.name] = (state, now)

    def _note_boot(self, last: NodeState | None, state: NodeState, now: float) -> None:
        """Who sat on another boot of this machine sits nowhere any more."""
        if not state.boot_id or (last is not None and last.boot_id == state.boot_id):
            return
        for client in self.on_node(state.name):
            old = self._boots.setdefault(client, state.boot_id)
            if old != state.boot_id:
                self.reborn.setdefault(client, Reborn(now, old, state.boot_id))


def trouble_after(
    before: Trouble | None, now: float, *, ready: bool, policy: Policy
) -> Trouble | None:
    """A node's trouble after its newest word. Pure.

    It begins with the first word that it is not Ready and ends when it has been Ready for a
    while: a relapse before that is the same trouble, or a flapping node would never be in any.
    """
    if before is None:
        return None if ready else Trouble(now)
    if ready:
        return before if before.ready_since is not None else Trouble(before.since, now)
    over = before.ready_since is not None and now - before.ready_since >= policy.ready_again_seconds
    return Trouble(now if over else before.since)
