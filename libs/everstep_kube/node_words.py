"""What conditions and taints of nodes mean. Each type of condition has its own bad status.

Kubernetes' word is evidence at most: only the out-of-service taint, by which somebody vouches
that the machine is off, is proof (R23). What no rule here names is told and not judged (EC-53).
"""

import re
from sys import intern
from typing import Any, Final, Literal, NamedTuple

from everstep_contract.facts.node import ConditionMeaning

from everstep_kube.loose import WORD_CHARACTERS, Json, mapping, mappings, sentence, word

OUT_OF_SERVICE_TAINT: Final = "node.kubernetes.io/out-of-service"
QUARANTINE_TAINT: Final = "everstep.dev/quarantined"
LISTED: Final = 32
"""Conditions and taints of one node that are told."""

TaintMeaning = Literal["proof", "ours", "planned", "evidence", "scheduling"]

_BAD_WHEN_TRUE: Final[dict[str, ConditionMeaning]] = {
    "MemoryPressure": "pressure",
    "DiskPressure": "pressure",
    "PIDPressure": "pressure",
    "NetworkUnavailable": "network",
    # node-problem-detector, and the managed clouds' additions to it
    "KernelDeadlock": "system",
    "ReadonlyFilesystem": "system",
    "CorruptDockerOverlay2": "system",
    "XfsShutdown": "system",
    "KubeletUnhealthy": "system",
    "KubeletProblem": "system",
    "ContainerRuntimeUnhealthy": "system",
    "ContainerRuntimeProblem": "system",
    "FilesystemCorruptionProblem": "system",
    "FrequentKubeletRestart": "system",
    "FrequentDockerRestart": "system",
    "FrequentContainerdRestart": "system",
    "FrequentUnregisterNetDevice": "network",
    "CperHardwareErrorFatal": "hardware",
    "XIDErrors": "hardware",
    "NVLinkStatusInactive": "hardware",
    "IBLinkFlapping": "hardware",
    "VMEventScheduled": "planned",
}
_HARDWARE_PREFIXES: Final = ("Gpu", "GPU", "SysLogs")
"""Families with a type for each kind of fault: NVSentinel's and node-problem-detector's."""

_PLANNED_TAINTS: Final = frozenset(
    {
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
        "karpenter.sh/disruption",
        "cloud.google.com/impending-node-termination",
    }
)
_PLANNED_PREFIX: Final = "aws-node-termination-handler/"
_READY_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_SHUTDOWN_TAINT: Final = "node.cloudprovider.kubernetes.io/shutdown"


_NOBODYS_BOARDS: Final = frozenset(
    {
        "03000200-0400-0500-0006-000700080009",
        "00020003-0004-0005-0006-000700080009",
        "12345678-1234-5678-90ab-cddeefaabbcc",
    }
)
"""UUIDs that firmware has by default, so that many boards share them."""
_NO_UUID: Final = re.compile(r"(0|f|-)*|[^-]*")


class Condition(NamedTuple):
    """A condition that speaks against its node, or that nobody here knows."""

    type: str
    status: str
    reason: str
    message: str
    meaning: ConditionMeaning


def conditions_of(status: Any) -> tuple[Condition, ...]:
    """What is wrong, or unknown to us, beside Ready; nothing of a healthy node.

    Unknown is the node controller's word for all of a silent kubelet's: Ready says that already.
    """
    found = (
        Condition(
            word(one.get("type")),
            word(one.get("status")),
            word(one.get("reason")),
            sentence(one.get("message")),
            meaning_of(word(one.get("type"))),
        )
        for one in mappings(status)
        if one.get("status") == "True" and one.get("type") not in (None, "", "Ready")
    )
    return tuple(sorted(found))[:LISTED]


def machines_of(spec: Json, info: Json) -> tuple[str, ...]:
    """What a machine is known by whatever its node is called: its provider's and its board's id."""
    provider = word(spec.get("providerID"))
    board = word(info.get("systemUUID")).lower()
    known = not _NO_UUID.fullmatch(board) and board not in _NOBODYS_BOARDS
    ids = (f"provider:{provider}" if provider else "", f"board:{board}" if known else "")
    return tuple(intern(one[:WORD_CHARACTERS]) for one in ids if one)


def meaning_of(condition: str) -> ConditionMeaning:
    """What True means for a type of condition."""
    known = _BAD_WHEN_TRUE.get(condition)
    if known is not None:
        return known
    return "hardware" if condition.startswith(_HARDWARE_PREFIXES) else "unjudged"


def taint_meaning(taint: Any) -> TaintMeaning:
    """What a taint says of its node; most keep pods away for reasons of no concern here."""
    one = mapping(taint)
    key, effect = word(one.get("key")), one.get("effect")
    if key == OUT_OF_SERVICE_TAINT:
        return "proof"
    if key == QUARANTINE_TAINT:
        return "ours"
    if key in _READY_TAINTS or key == _SHUTDOWN_TAINT:
        return "evidence"
    if key in _PLANNED_TAINTS or key.startswith(_PLANNED_PREFIX) or effect == "NoExecute":
        return "planned"
    return "scheduling"


def taint_text(taint: Any) -> str:
    """A taint as kubectl writes it."""
    one = mapping(taint)
    value = word(one.get("value"))
    named = f"{word(one.get('key'))}={value}" if value else word(one.get("key"))
    return f"{named}:{word(one.get('effect'))}"[:600]
