"""What Everstep needs of pods, nodes and Jobs, read from their JSON as it really comes.

Fields may be missing, conditions come in any order, and unknown ones are ignored.
"""

from dataclasses import dataclass
from typing import Any, Final, Literal, cast, get_args

from everstep_contract.base import EXACT
from everstep_contract.identity import GangSpec, JobKey

from everstep_kube.client import Json

JOB_NAME_LABEL: Final = "volcano.sh/job-name"
GENERATION_ANNOTATION: Final = "everstep.dev/generation"
WORKERS_ANNOTATION: Final = "everstep.dev/nproc-per-node"
CORDON_ANNOTATION: Final = "everstep.dev/cordoned-by"
QUARANTINE_TAINT: Final = "everstep.dev/quarantined"
OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"
MOST_MEMBERS: Final = 100_000
"""As many as `GangSpec` admits; what a manifest says beyond its bounds is taken for the bound."""
MOST_WORKERS: Final = 1024

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
NodeReady = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class PodState:
    """A pod of a Volcano Job."""

    job: JobKey
    job_uid: str
    name: str
    uid: str
    node: str
    phase: PodPhase
    terminating: bool
    terminated: bool
    reason: str
    resource_version: str


@dataclass(frozen=True)
class NodeState:
    """A node, and what of its cordon and taints is ours."""

    name: str
    ready: NodeReady
    boot_id: str
    unschedulable: bool
    taints: tuple[Json, ...]
    quarantined_by: str | None
    cordoned_by: str | None
    resource_version: str

    @property
    def out_of_service(self) -> bool:
        """Somebody vouches that the machine is off: proof of death (R23)."""
        return any(taint.get("key") == OUT_OF_SERVICE_TAINT for taint in self.taints)


@dataclass(frozen=True)
class JobState:
    """A Volcano Job. ``restarts_on_deletion`` names a policy that a pod's deletion sets off."""

    job: JobKey
    uid: str
    gang: GangSpec
    generation: int
    restarts_on_deletion: str
    resource_version: str


def pod_state(pod: Json) -> PodState | None:
    """The pod's state; None when it is no pod of a Volcano Job."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    name = (metadata.get("labels") or {}).get(JOB_NAME_LABEL)
    owner = next((o for o in metadata.get("ownerReferences") or () if o["kind"] == "Job"), None)
    if not name or owner is None:
        return None
    phase = status.get("phase")
    return PodState(
        job=JobKey(namespace=metadata["namespace"], name=name),
        job_uid=owner["uid"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=(pod.get("spec") or {}).get("nodeName") or "",
        phase=cast("PodPhase", phase) if phase in get_args(PodPhase) else "Unknown",
        terminating="deletionTimestamp" in metadata,
        terminated=phase in ("Succeeded", "Failed"),
        reason=str(status.get("reason") or status.get("message") or "")[:500],
        resource_version=metadata["resourceVersion"],
    )


def node_state(node: Json) -> NodeState:
    """The node's state; Ready is Unknown when nobody says."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    conditions = {one.get("type"): one.get("status") for one in status.get("conditions") or ()}
    ready = conditions.get("Ready")
    taints = tuple(spec.get("taints") or ())
    ours = next((taint for taint in taints if taint.get("key") == QUARANTINE_TAINT), None)
    return NodeState(
        name=metadata["name"],
        ready=cast("NodeReady", ready) if ready in get_args(NodeReady) else "Unknown",
        boot_id=str((status.get("nodeInfo") or {}).get("bootID") or "")[:64],
        unschedulable=bool(spec.get("unschedulable")),
        taints=taints,
        quarantined_by=str(ours.get("value") or "") if ours else None,
        cordoned_by=(metadata.get("annotations") or {}).get(CORDON_ANNOTATION),
        resource_version=metadata["resourceVersion"],
    )


def job_state(job: Json) -> JobState:
    """The Job's state. Its size is the sum of its tasks' replicas."""
    metadata, spec = job["metadata"], job.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    tasks = spec.get("tasks") or ()
    replicas = sum(_number(task.get("replicas"), otherwise=1, least=0) for task in tasks)
    members = min(max(replicas, 1), MOST_MEMBERS)
    return JobState(
        job=JobKey(namespace=metadata["namespace"], name=metadata["name"]),
        uid=metadata["uid"],
        gang=GangSpec(
            min_member=min(_number(spec.get("minAvailable"), members, least=1), MOST_MEMBERS),
            max_member=members,
            nproc_per_node=min(
                _number(annotations.get(WORKERS_ANNOTATION), 1, least=1), MOST_WORKERS
            ),
        ),
        generation=_number(annotations.get(GENERATION_ANNOTATION), 0, least=0),
        restarts_on_deletion=_policy_on_deletion(spec),
        resource_version=metadata["resourceVersion"],
    )


def _policy_on_deletion(spec: Json) -> str:
    """A policy for evicted pods: Volcano takes any deletion for one, ours too (EC-08)."""
    for owner in (spec, *(spec.get("tasks") or ())):
        for policy in owner.get("policies") or ():
            events = {policy.get("event"), *(policy.get("events") or ())}
            if events & {"PodEvicted", "*"}:
                return f"{sorted(filter(None, events))[0]} -> {policy.get('action')}"
    return ""


def _number(value: Any, otherwise: int, *, least: int) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        return otherwise
    return max(number, least) if number <= EXACT else otherwise
