"""What Everstep needs of pods, nodes and Jobs, read from their JSON as it really comes.

Fields may be missing, conditions come in any order, and unknown ones are ignored.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any, Final, Literal, cast, get_args

from everstep_contract.base import EXACT
from everstep_contract.facts.job import PodCause
from everstep_contract.identity import GangSpec, JobKey

from everstep_kube.loose import UNREADABLE_ERRORS, Json, mapping, mappings, named, sentence, word
from everstep_kube.node_words import (
    QUARANTINE_TAINT,
    Condition,
    conditions_of,
    machines_of,
    taint_meaning,
)
from everstep_kube.pod_words import Container, any_runs, cause_of, containers_of

JOB_NAME_LABEL: Final = "volcano.sh/job-name"
GENERATION_ANNOTATION: Final = "everstep.dev/generation"
WORKERS_ANNOTATION: Final = "everstep.dev/nproc-per-node"
CORDON_ANNOTATION: Final = "everstep.dev/cordoned-by"
INCIDENT_ANNOTATION: Final = "everstep.dev/quarantine-incident"
REASON_ANNOTATION: Final = "everstep.dev/quarantine-reason"
SINCE_ANNOTATION: Final = "everstep.dev/quarantined-since"
ON_BEHALF_ANNOTATION: Final = "everstep.dev/quarantined-for"
MOST_MEMBERS: Final = 100_000
"""As many as `GangSpec` admits; what a manifest says beyond its bounds is taken for the bound."""
MOST_WORKERS: Final = 1024

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
NodeReady = Literal["True", "False", "Unknown"]


@dataclass(frozen=True, slots=True)
class PodState:
    """A pod of a Volcano Job.

    terminated: every container has ended, by the kubelet's word. A phase alone is no such word: the
    garbage collector writes Failed on pods of nodes that nobody has heard of since.
    cause: why it ends. containers: those that do not simply run, so that people see why.
    """

    job: JobKey
    job_uid: str
    name: str
    uid: str
    node: str
    phase: PodPhase
    terminating: bool
    terminated: bool
    reason: str
    resource_version: str = field(compare=False)
    cause: PodCause = ""
    grace_seconds: int | None = None
    containers: tuple[Container, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node, and what of its cordon and taints is ours.

    conditions: what speaks against it beside Ready, and what nobody here knows; none of a healthy
    one. machines: what its machine is known by, whatever the node is called.
    """

    name: str
    ready: NodeReady
    boot_id: str
    unschedulable: bool
    taints: tuple[Json, ...]
    quarantined_by: str | None
    cordoned_by: str | None
    resource_version: str = field(compare=False)
    uid: str = ""
    ready_reason: str = ""
    conditions: tuple[Condition, ...] = ()
    machines: tuple[str, ...] = ()

    @property
    def out_of_service(self) -> bool:
        """Somebody vouches that the machine is off: proof of death (R23)."""
        return any(taint_meaning(taint) == "proof" for taint in self.taints)


@dataclass(frozen=True)
class JobState:
    """A Volcano Job. ``restarts_on_deletion`` names a policy that a pod's deletion sets off."""

    job: JobKey
    uid: str
    gang: GangSpec
    generation: int
    restarts_on_deletion: str
    resource_version: str = field(compare=False)


def pod_state(pod: Json) -> PodState | None:
    """The pod's state; None when it is no pod of a Volcano Job."""
    metadata, status = mapping(pod.get("metadata")), mapping(pod.get("status"))
    name = mapping(metadata.get("labels")).get(JOB_NAME_LABEL)
    owners = mappings(metadata.get("ownerReferences"))
    owner = next((one for one in owners if one.get("kind") == "Job" and one.get("uid")), None)
    if not name or owner is None or not metadata.get("uid"):
        return None
    phase, deleted = status.get("phase"), bool(metadata.get("deletionTimestamp"))
    grace = metadata.get("deletionGracePeriodSeconds")
    return PodState(
        job=_job_key(named(metadata["namespace"]), named(name)),
        job_uid=intern(word(owner["uid"])),
        name=named(metadata["name"]),
        uid=named(metadata["uid"]),
        node=intern(word(mapping(pod.get("spec")).get("nodeName"))),
        phase=cast("PodPhase", intern(str(phase))) if phase in get_args(PodPhase) else "Unknown",
        terminating=deleted,
        terminated=phase in ("Succeeded", "Failed") and not any_runs(status),
        reason=sentence(status.get("reason") or status.get("message")),
        resource_version=word(metadata.get("resourceVersion"))[:64],
        cause=cause_of(pod),
        grace_seconds=grace if deleted and isinstance(grace, int) and grace >= 0 else None,
        containers=containers_of(status),
    )


def node_state(node: Json) -> NodeState:
    """The node's state; Ready is Unknown when nobody says."""
    metadata, spec = mapping(node.get("metadata")), mapping(node.get("spec"))
    status = mapping(node.get("status"))
    ready = _ready_condition(status)
    said = ready.get("status")
    taints = mappings(spec.get("taints"))
    cordoned = mapping(metadata.get("annotations")).get(CORDON_ANNOTATION)
    ours = next((taint for taint in taints if taint.get("key") == QUARANTINE_TAINT), None)
    return NodeState(
        name=intern(named(metadata["name"])),
        ready=cast("NodeReady", intern(str(said))) if said in get_args(NodeReady) else "Unknown",
        boot_id=word(mapping(status.get("nodeInfo")).get("bootID"))[:64],
        unschedulable=spec.get("unschedulable") is True,
        taints=taints,
        quarantined_by=word(ours.get("value")) if ours else None,
        cordoned_by=word(cordoned) if cordoned is not None else None,
        resource_version=word(metadata.get("resourceVersion"))[:64],
        uid=word(metadata.get("uid")),
        ready_reason="" if said == "True" else _said_of(ready),
        conditions=conditions_of(status.get("conditions")),
        machines=machines_of(spec, mapping(status.get("nodeInfo"))),
    )


def _ready_condition(status: Json) -> Json:
    conditions = mappings(status.get("conditions"))
    return next((one for one in conditions if one.get("type") == "Ready"), {})


def _said_of(condition: Json) -> str:
    parts = (word(condition.get("reason")), sentence(condition.get("message")))
    return ": ".join(part for part in parts if part)


@lru_cache(maxsize=4096)
def _job_key(namespace: str, name: str) -> JobKey:
    """One key for all pods of a job: there may be tens of thousands."""
    return JobKey(namespace=namespace, name=name)


def job_state(job: Json) -> JobState:
    """The Job's state. Its size is the sum of its tasks' replicas."""
    metadata, spec = mapping(job.get("metadata")), mapping(job.get("spec"))
    annotations = mapping(metadata.get("annotations"))
    tasks = mappings(spec.get("tasks"))
    replicas = sum(_number(task.get("replicas"), otherwise=1, least=0) for task in tasks)
    members = min(max(replicas, 1), MOST_MEMBERS)
    return JobState(
        job=_job_key(named(metadata["namespace"]), named(metadata["name"])),
        uid=named(metadata["uid"]),
        gang=GangSpec(
            min_member=min(_number(spec.get("minAvailable"), members, least=1), MOST_MEMBERS),
            max_member=members,
            nproc_per_node=min(
                _number(annotations.get(WORKERS_ANNOTATION), 1, least=1), MOST_WORKERS
            ),
        ),
        generation=_number(annotations.get(GENERATION_ANNOTATION), 0, least=0),
        restarts_on_deletion=_policy_on_deletion(spec),
        resource_version=word(metadata.get("resourceVersion"))[:64],
    )


def _policy_on_deletion(spec: Json) -> str:
    """A policy for evicted pods: Volcano takes any deletion for one, ours too (EC-08)."""
    for owner in (spec, *mappings(spec.get("tasks"))):
        for policy in mappings(owner.get("policies")):
            named = policy.get("events")
            listed = named if isinstance(named, list) else ()
            events = {word(one) for one in (policy.get("event"), *listed)}
            if events & {"PodEvicted", "*"}:
                return f"{sorted(filter(None, events))[0]} -> {policy.get('action')}"
    return ""


def _number(value: Any, otherwise: int, *, least: int) -> int:
    try:
        number = int(value)
    except UNREADABLE_ERRORS:
        return otherwise
    return max(number, least) if number <= EXACT else otherwise
