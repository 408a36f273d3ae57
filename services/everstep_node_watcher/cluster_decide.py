"""What Kubernetes says of pods, nodes and Jobs, as facts and as causes to suspect members.

Its word is evidence, not proof: NotReady and Unknown condemn nobody by themselves (R11).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from everstep_contract.base import Event
from everstep_contract.clients import AgentClient
from everstep_contract.facts.job import JobObserved, PodObserved
from everstep_contract.facts.member import SuspicionReason
from everstep_contract.facts.node import NodeObserved
from everstep_contract.identity import JobKey, Member
from everstep_contract.record import JobRecord
from everstep_kube.objects import JobState, NodeState, PodState
from everstep_runtime.clock import Moment

from everstep_node_watcher.model import Cause

DELETED_PODS_LIMIT: Final = 1024
"""Deleted pods that are remembered; older ones have been replaced long since."""

State = PodState | NodeState | JobState


@dataclass(frozen=True)
class ClusterView:
    """What the cluster holds, by uid or node name, and since when it is in trouble."""

    states: Mapping[str, State] = field(default_factory=dict)
    deleted_pods: Mapping[str, PodState] = field(default_factory=dict)
    trouble_since: Mapping[str, float] = field(default_factory=dict)
    seats: Mapping[JobKey, tuple[Member, ...]] = field(default_factory=dict)

    def is_seated(self, client: AgentClient) -> bool:
        """Whether this incarnation is a member of its job."""
        members = self.seats.get(client.job, ())
        return any(member.incarnation == client.incarnation for member in members)


def seated(view: ClusterView, job: JobKey, record: JobRecord | None) -> ClusterView:
    """Watch the members that a record lists, and no others."""
    seats = {key: members for key, members in view.seats.items() if key != job}
    if record is not None and record.phase != "ended" and record.state != "stop":
        seats[job] = tuple(seat.member for seat in record.seats)
    return replace(view, seats=seats)


def observe(
    view: ClusterView, state: State, now: Moment, *, deleted: bool
) -> tuple[ClusterView, Event | None]:
    """Take in an object's newest state; the fact, if it says anything new."""
    key = state.name if isinstance(state, NodeState) else state.uid
    before = view.states.get(key)
    states = {at: known for at, known in view.states.items() if at != key}
    trouble = {at: since for at, since in view.trouble_since.items() if at != key}
    pods = dict(view.deleted_pods)
    if deleted and isinstance(state, PodState):
        pods[key] = state
    if not deleted:
        states[key] = state
    if deleted or _in_trouble(state):
        trouble[key] = view.trouble_since.get(key, now.monotonic)
    while len(pods) > DELETED_PODS_LIMIT:
        oldest = next(iter(pods))
        del pods[oldest], trouble[oldest]
    view = replace(view, states=states, deleted_pods=pods, trouble_since=trouble)
    news = deleted or before is None or _essence(before) != _essence(state)
    return view, _fact(state, now, deleted=deleted) if news else None


def causes(view: ClusterView) -> Mapping[AgentClient, Cause]:
    """Whom the cluster's word gives cause to suspect."""
    found: dict[AgentClient, Cause] = {}
    for job, members in view.seats.items():
        for member in members:
            if (reason := _reason(view, member)) is not None:
                about = member.node if reason == "node_not_ready" else member.pod_uid
                since = view.trouble_since.get(about, 0.0)
                cause = Cause(member, reason, since, f"{reason.replace('_', ' ')}: {about}")
                found[AgentClient(job, member.incarnation)] = cause
    return found


def _reason(view: ClusterView, member: Member) -> SuspicionReason | None:
    """The strongest reason to suspect the member."""
    if member.pod_uid in view.deleted_pods:
        return "pod_deleted"
    pod, node = view.states.get(member.pod_uid), view.states.get(member.node)
    if isinstance(pod, PodState) and pod.terminated:
        return "pod_terminated"
    if (isinstance(node, NodeState) and _in_trouble(node)) or (
        node is None and member.node in view.trouble_since
    ):
        return "node_not_ready"
    return None


def _in_trouble(state: State) -> bool:
    match state:
        case PodState():
            return state.terminated
        case NodeState():
            return state.ready != "True" or state.out_of_service
        case JobState():
            return False


def _essence(state: State) -> tuple[object, ...]:
    """What a fact tells; heartbeats and others' labels change the rest all the time."""
    match state:
        case PodState():
            return state.node, state.phase, state.terminating, state.terminated
        case NodeState():
            return state.ready, state.boot_id, state.out_of_service
        case JobState():
            return state.gang, state.generation


def _fact(state: State, now: Moment, *, deleted: bool) -> Event:
    match state:
        case PodState():
            return PodObserved(
                at=now.at,
                job=state.job,
                job_uid=state.job_uid,
                pod=state.name,
                pod_uid=state.uid,
                node=state.node,
                phase=state.phase,
                terminating=state.terminating,
                terminated=state.terminated,
                deleted=deleted,
                reason=state.reason,
                resource_version=state.resource_version,
            )
        case NodeState():
            return NodeObserved(
                at=now.at,
                node=state.name,
                ready=state.ready,
                boot_id=state.boot_id,
                deleted=deleted,
                out_of_service=state.out_of_service,
                resource_version=state.resource_version,
            )
        case JobState():
            return JobObserved(
                at=now.at,
                job=state.job,
                job_uid=state.uid,
                gang=state.gang,
                annotated_generation=state.generation,
                deleted=deleted,
                resource_version=state.resource_version,
            )
