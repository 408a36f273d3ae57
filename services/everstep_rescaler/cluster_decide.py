"""What is due in the cluster for one job (R23): pure, and asked again right before each write.

Leaving a member out is reversible and has happened already. What is decided here is not: so a
pod is deleted only when it is dead or long silent, by force only when its host can act no more,
and a node is cordoned only on hardware evidence, repetition or lasting silence.
"""

from typing import Final, Literal

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
    Renew,
    Scene,
)
from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.machines import is_another_machine, outlives_its_node, was_made_anew

KERNEL_LIVES: Final[frozenset[EvidenceKind]] = frozenset(
    {
        *("probe_refused", "pod_terminated", "worker_exited", "other_incarnation", "left"),
        *("node_rebooted", "planned"),
    }
)
"""Evidence that only a living machine can give: its silence is the pod's, not the node's."""


def decide_cluster(scene: Scene, policy: ClusterPolicy) -> tuple[Change, ...]:
    """Changes that are due now, in the order in which to make them.

    A pod is deleted only once the quarantine of its node is in force, or its successor lands on
    the same bad machine (EC-22). Where the quarantine is not made, the pod is left as it is. Who
    only observes tells both, as if the first were made.
    """
    record = scene.record
    if scene.job is None or scene.job.uid != record.job_uid or record.phase == "ended":
        return ()
    changes: list[Change] = []
    if scene.job.generation < record.generation:
        changes.append(Annotate(record.job_uid, record.generation))
    seated = {seat.member.pod_uid for seat in record.seats}
    lost = [one for one in scene.lost if one.member.pod_uid not in seated]
    quarantines = _quarantines(scene, lost, policy)
    changes += quarantines
    told = {one.node for one in quarantines if isinstance(one, Quarantine) and not policy.act}
    for one in lost:
        deletion = _deletion(record, one, policy)
        if deletion is None:
            continue
        if policies := scene.job.restarts_on_deletion:
            why = f"the Job's policy {policies} would restart more than this pod: make it without"
            changes.append(_spared(deletion, one, why))
        elif one.member.node in told or not _would_come_back(one, policy):
            changes.append(deletion)
        else:
            changes.append(_spared(deletion, one, _not_yet(one)))
    return tuple(changes)


def _quarantines(scene: Scene, lost: list[Lost], policy: ClusterPolicy) -> list[Change]:
    changes: list[Change] = []
    nodes: set[str] = set()
    for one in lost:
        cause = _due_cause(one, policy)
        if cause is None or one.node is None or one.node.name in nodes:
            continue
        node, reason = one.node, _words(cause, one, policy)
        nodes.add(node.name)
        if scene.quarantined + len(nodes) > policy.max_quarantined:
            why = brake(policy)
            changes.append(Refrain("taint", node.name, node.uid, one.incident, reason, why))
        else:
            changes.append(Quarantine(node.name, node.boot_id, one.incident, cause, reason))
    return changes


def brake(policy: ClusterPolicy) -> str:
    """Why no more nodes are quarantined, and what to do about it."""
    limit = f"{policy.max_quarantined} nodes are quarantined already"
    return f"{limit}: release one, or raise EVERSTEP_MAX_QUARANTINED_NODES"


def _not_yet(lost: Lost) -> str:
    node = lost.member.node
    return f"its successor would land on {node}, which is due for quarantine: cordon {node} by hand"


def _spared(deletion: DeletePod, lost: Lost, why: str) -> Refrain:
    """A deletion that would restart the whole job (EC-08), or lead back to a bad node (EC-22)."""
    verb: Literal["delete_pod", "force_delete_pod"] = (
        "force_delete_pod" if deletion.force else "delete_pod"
    )
    return Refrain(verb, deletion.pod, deletion.pod_uid, lost.incident, deletion.reason, why)


def _due_cause(lost: Lost, policy: ClusterPolicy) -> QuarantineCause | None:
    """Why the node should be quarantined and is not; None also after somebody ended it."""
    return None if _settled(lost) else _cause(lost, policy)


def _would_come_back(lost: Lost, policy: ClusterPolicy) -> bool:
    """Whether the pod's successor could be put on the very node that is due for quarantine."""
    node = lost.node
    takes_pods = (
        node is not None
        and node.ready == "True"
        and not node.unschedulable
        and node.quarantined_by is None
    )
    return takes_pods and _due_cause(lost, policy) is not None


def _cause(lost: Lost, policy: ClusterPolicy) -> QuarantineCause | None:
    if "hardware_fault" in lost.evidence:
        return "hardware"
    if lost.failures >= policy.repetition:
        return "repetition"
    silent = lost.node_silent_seconds >= policy.quarantine_silence_seconds
    return "silence" if silent and not _lives(lost) else None


def _lives(lost: Lost) -> bool:
    """Whether the machine shows life, or has nobody on it who could: its silence says nothing."""
    node, pod = lost.node, lost.pod
    if lost.evidence & KERNEL_LIVES:
        return True
    if node is None or node.ready != "True":
        return False
    rebooted = bool(lost.boot_id and node.boot_id) and node.boot_id != lost.boot_id
    ended = pod is None or pod.uid != lost.member.pod_uid or pod.terminated
    return rebooted or ended


def _words(cause: QuarantineCause, lost: Lost, policy: ClusterPolicy) -> str:
    """The cause in words that do not change from look to look."""
    member = lost.member.name
    if cause == "hardware":
        return f"a hardware fault under {member}"
    if cause == "repetition":
        hours = policy.repetition_seconds / 3600
        return f"{policy.repetition} or more incidents within {hours:g} h, the last of {member}"
    return f"{policy.quarantine_silence_seconds:g} s without a sign of life, {member} on it is lost"


def _settled(lost: Lost) -> bool:
    """Whether a quarantine is in force, or this incident's was ended and a new fault must come."""
    known = lost.node_record
    if known is None:
        return False
    ended = lost.incident in (known.released_from, *known.released_before)
    return known.quarantined_by is not None or ended


def _deletion(record: JobRecord, lost: Lost, policy: ClusterPolicy) -> DeletePod | None:
    pod, node = lost.pod, lost.node
    if pod is None or pod.uid != lost.member.pod_uid or pod.phase == "Succeeded":
        return None
    if pod.job_uid != record.job_uid:
        return None  # an agent named the pod of another Job as its own
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
    fenced = lost.silent_seconds >= fenced_after
    return "its node is not ready and it has fenced itself by now" if fenced else ""


def _goes_on_without(record: JobRecord) -> bool:
    """Whether the generation that leaves the member out has formed, or holds (R23)."""
    formed = record.formed_generation >= record.generation
    return formed or record.phase in ("formed", "resumed", "holding")


def _is_unwell(node: NodeState | None) -> bool:
    return node is None or node.ready != "True" or node.out_of_service


def decide_release(
    known: NodeRecord, node: NodeState | None, *, well_seconds: float, policy: ClusterPolicy
) -> Release | Renew | None:
    """Whether a quarantine ends (R25): it was undone by hand, or the silent node is well again.

    Hardware faults and repetition end by a person's hand only, and are the machine's: they outlive
    its node. ``well_seconds``: how long the node has been Ready and, unless it was rebooted, has
    had a member on it that reports.
    """
    if node is None:
        return None if outlives_its_node(known) else Release(known.node, "the node is deleted")
    if was_made_anew(known, node):
        if is_another_machine(known, node.machines):
            return Release(known.node, "another machine has its name now")
        if outlives_its_node(known):
            return Renew(known.node, node.uid)
        return Release(known.node, "the node was made anew")
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
