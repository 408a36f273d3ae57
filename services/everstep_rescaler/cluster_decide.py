"""What is due in the cluster for one job (R23): pure, and asked again right before each write.

Leaving a member out is reversible and has happened already. What is decided here is not: so a
pod is deleted only when it is dead or long silent, by force only when its host can act no more,
and a node is cordoned only on hardware evidence, repetition or lasting silence.
"""

from typing import Final

from everstep_contract.record import JobRecord, NodeRecord, QuarantineCause
from everstep_contract.verdicts import EvidenceKind
from everstep_kube.objects import NodeState

from everstep_rescaler.cluster_model import (
    Annotate,
    Change,
    DeletePod,
    Lost,
    Quarantine,
    Refrain,
    Release,
    Scene,
)
from everstep_rescaler.cluster_policy import ClusterPolicy

KERNEL_LIVES: Final[frozenset[EvidenceKind]] = frozenset(
    {
        *("probe_refused", "pod_terminated", "worker_exited", "other_incarnation", "left"),
        *("node_rebooted", "planned"),
    }
)
"""Evidence that only a living machine can give: its silence is the pod's, not the node's."""


def decide_cluster(scene: Scene, policy: ClusterPolicy) -> tuple[Change, ...]:
    """Changes that are due now, in the order in which to make them.

    The quarantine comes before the deletion, or the pod's successor lands on the same node.
    """
    record = scene.record
    if scene.job is None or scene.job.uid != record.job_uid or record.phase == "ended":
        return ()
    changes: list[Change] = []
    if scene.job.generation < record.generation:
        changes.append(Annotate(record.job_uid, record.generation))
    seated = {seat.member.pod_uid for seat in record.seats}
    lost = [one for one in scene.lost if one.member.pod_uid not in seated]
    changes += _quarantines(scene, lost, policy)
    for one in lost:
        if (deletion := _deletion(record, one, policy)) is not None:
            policies = scene.job.restarts_on_deletion
            changes.append(Refrain(f"delete {deletion.pod}", policies) if policies else deletion)
    return tuple(changes)


def _quarantines(scene: Scene, lost: list[Lost], policy: ClusterPolicy) -> list[Change]:
    changes: list[Change] = []
    nodes: set[str] = set()
    for one in lost:
        cause = _cause(one, policy)
        if cause is None or one.node is None or one.node.name in nodes or _settled(one):
            continue
        if scene.quarantined + len(nodes) >= policy.max_quarantined:
            limit = f"{policy.max_quarantined} nodes are quarantined already"
            changes.append(Refrain(f"quarantine {one.node.name}", limit))
            continue
        nodes.add(one.node.name)
        changes.append(Quarantine(one.node.name, one.node.boot_id, one.incident, cause))
    return changes


def _cause(lost: Lost, policy: ClusterPolicy) -> QuarantineCause | None:
    if "hardware_fault" in lost.evidence:
        return "hardware"
    if lost.failures >= policy.repetition:
        return "repetition"
    silent = lost.node_silent_seconds >= policy.quarantine_silence_seconds
    return "silence" if silent and not lost.evidence & KERNEL_LIVES else None


def _settled(lost: Lost) -> bool:
    """Whether a quarantine is in force, or this incident's was ended and a new fault must come."""
    known = lost.node_record
    return known is not None and (
        known.quarantined_by is not None or known.released_from == lost.incident
    )


def _deletion(record: JobRecord, lost: Lost, policy: ClusterPolicy) -> DeletePod | None:
    pod, node = lost.pod, lost.node
    if pod is None or pod.uid != lost.member.pod_uid or pod.phase == "Succeeded":
        return None
    boot_id = node.boot_id if node else ""
    if not pod.terminating:
        reason = _why_dead(record, lost, policy)
        return DeletePod(pod.name, pod.uid, boot_id, force=False, reason=reason) if reason else None
    reason = _why_fenced(record, lost, policy)
    return DeletePod(pod.name, pod.uid, boot_id, force=True, reason=reason) if reason else None


def _why_dead(record: JobRecord, lost: Lost, policy: ClusterPolicy) -> str:
    """Why the pod may be deleted plainly; empty if it may not."""
    assert lost.pod is not None
    if lost.pod.terminated:
        return "its containers have terminated"
    if not _goes_on_without(record) or lost.silent_seconds < policy.silent_seconds:
        return ""
    if _is_unwell(lost.node):
        return "it is silent and its node is not ready"
    return "it is silent for long" if lost.silent_seconds >= policy.pod_silence_seconds else ""


def _why_fenced(record: JobRecord, lost: Lost, policy: ClusterPolicy) -> str:
    """Why the pod can act no more, so that a successor may be made; empty if it might."""
    unheard = lost.silent_seconds >= policy.silent_seconds
    if not (_goes_on_without(record) and unheard and _is_unwell(lost.node)):
        return ""
    if lost.node is None:
        return "its node is deleted"
    if lost.node.out_of_service:
        return "its node is out of service"
    fenced_after = record.durations.self_fence_seconds + policy.fence_margin_seconds
    return "it has fenced itself by now" if lost.silent_seconds >= fenced_after else ""


def _goes_on_without(record: JobRecord) -> bool:
    """Whether the generation that leaves the member out has formed, or holds (R23)."""
    formed = record.formed_generation >= record.generation
    return formed or record.phase in ("formed", "resumed", "holding")


def _is_unwell(node: NodeState | None) -> bool:
    return node is None or node.ready != "True" or node.out_of_service


def decide_release(
    known: NodeRecord, node: NodeState | None, *, well_seconds: float, policy: ClusterPolicy
) -> Release | None:
    """Whether a quarantine ends (R25): it was undone by hand, or the silent node is well again.

    Hardware faults and repetition end by a person's hand only. ``well_seconds``: how long the
    node has been Ready and, unless it was rebooted, has had a member on it that reports.
    """
    if node is None:
        return Release(known.node, "the node is deleted")
    if node.quarantined_by is None:
        return Release(known.node, "its taint was removed by hand")
    if known.cordoned_by_us and not node.unschedulable:
        return Release(known.node, "it was uncordoned by hand")
    if known.cause == "silence" and well_seconds >= policy.well_seconds:
        return Release(known.node, f"it has been well for {policy.well_seconds:g} s")
    return None


def is_well(known: NodeRecord, node: NodeState | None, *, heard: bool) -> bool:
    """Whether the node shows that it lives: Ready, and either rebooted or heard again."""
    if node is None or node.ready != "True":
        return False
    return heard or (node.boot_id != known.boot_id and bool(node.boot_id))
