"""The facts that tell what an object is like now, and what of it is worth a fact."""

from everstep_contract.base import Event
from everstep_contract.facts.job import ContainerObserved, JobObserved, PodObserved
from everstep_contract.facts.node import NodeCondition, NodeObserved
from everstep_kube.node_words import LISTED, taint_meaning, taint_text
from everstep_kube.objects import JobState, NodeState, PodState
from everstep_runtime.clock import Moment

from everstep_node_watcher.cluster_view import State

Essence = tuple[object, ...]


def key_of(state: State) -> str:
    """What an object is known by: its uid, or a node's name, which outlives the object."""
    return state.name if isinstance(state, NodeState) else state.uid


def essence(state: State) -> Essence:
    """What a fact tells; heartbeats and others' labels change the rest all the time."""
    match state:
        case PodState():
            own = (state.node, state.phase, state.terminating, state.terminated, state.cause)
            return (*own, state.containers)
        case NodeState():
            said = tuple((one.type, one.reason) for one in state.conditions)
            cordon = (state.unschedulable, state.cordoned_by)
            taints = tuple(map(taint_text, state.taints))
            return (*proof(state), state.ready, said, cordon, taints)
        case JobState():
            return state.gang, state.generation


def proof(state: State) -> Essence:
    """What of it others act on at once."""
    match state:
        case PodState():
            return state.node, state.terminating, state.terminated, state.cause
        case NodeState():
            return state.uid, state.boot_id, state.out_of_service, state.machines
        case JobState():
            return essence(state)


def is_urgent(before: State | None, state: State) -> bool:
    """Whether others may act on this news: it is never put off."""
    return proof(before) != proof(state) if before is not None else _is_grave(state)


def _is_grave(state: State) -> bool:
    """Whether what is heard of for the first time is more than one of many."""
    match state:
        case PodState():
            return state.terminating or state.terminated
        case NodeState():
            return state.out_of_service
        case JobState():
            return True


def fact(state: State, now: Moment, *, deleted: bool = False, planned: bool = False) -> Event:
    """What is told of an object."""
    match state:
        case PodState():
            return _pod_fact(state, now, deleted=deleted, planned=planned)
        case NodeState():
            return _node_fact(state, now, deleted=deleted)
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


def _pod_fact(state: PodState, now: Moment, *, deleted: bool, planned: bool) -> PodObserved:
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
        cause=state.cause,
        planned=planned,
        grace_seconds=state.grace_seconds,
        containers=tuple(ContainerObserved(**one._asdict()) for one in state.containers),
        resource_version=state.resource_version,
    )


def _node_fact(state: NodeState, now: Moment, *, deleted: bool) -> NodeObserved:
    leaving = (taint for taint in state.taints if taint_meaning(taint) == "planned")
    return NodeObserved(
        at=now.at,
        node=state.name,
        ready=state.ready,
        ready_reason=state.ready_reason,
        boot_id=state.boot_id,
        node_uid=state.uid,
        machines=state.machines,
        deleted=deleted,
        out_of_service=state.out_of_service,
        conditions=tuple(NodeCondition(**one._asdict()) for one in state.conditions),
        taints=tuple(map(taint_text, state.taints[:LISTED])),
        cordoned=state.unschedulable,
        cordoned_by=state.cordoned_by or "",
        leaving=taint_text(next(leaving, {})).strip(":"),
        resource_version=state.resource_version,
    )
