"""What the cluster half reasons about: excluded members, and what may be done about each."""

from dataclasses import dataclass
from typing import Literal

from everstep_contract.identity import Member
from everstep_contract.record import JobRecord, NodeRecord, QuarantineCause
from everstep_contract.verdicts import EvidenceKind
from everstep_kube.objects import JobState, NodeState, PodState


@dataclass(frozen=True)
class Lost:
    """An excluded member, and all that is known of its pod and its node now.

    ``pod`` is whatever has the pod's name now, which may be its successor. ``boot_id`` is the
    node's as we first saw it after the exclusion: another one since means that it was rebooted.
    Silences are seconds since anything in the pod, or on the node, reported; never counted before
    we first knew.
    """

    member: Member
    evidence: frozenset[EvidenceKind]
    incident: str
    pod: PodState | None
    node: NodeState | None
    node_record: NodeRecord | None
    silent_seconds: float
    node_silent_seconds: float
    failures: int
    boot_id: str = ""


@dataclass(frozen=True)
class Scene:
    """One job, as just read. ``quarantined``: nodes that are now, of whatever job."""

    record: JobRecord
    job: JobState | None
    lost: tuple[Lost, ...] = ()
    quarantined: int = 0


@dataclass(frozen=True)
class Annotate:
    """Write the generation on the Volcano Job (R5)."""

    job_uid: str
    generation: int


@dataclass(frozen=True)
class Quarantine:
    """Cordon and taint the node, as long as it is in the same life; the reason is for people."""

    node: str
    boot_id: str
    incident: str
    cause: QuarantineCause
    reason: str


@dataclass(frozen=True)
class DeletePod:
    """Delete this very pod, while its node is in the same life; the reason is for people."""

    pod: str
    pod_uid: str
    boot_id: str
    force: bool
    reason: str


@dataclass(frozen=True)
class Refrain:
    """What would be due and is not done, and ``why``; for people."""

    verb: Literal["taint", "delete_pod", "force_delete_pod"]
    target: str
    uid: str
    incident: str
    reason: str
    why: str


Change = Annotate | Quarantine | DeletePod | Refrain


@dataclass(frozen=True)
class Release:
    """Undo the quarantine of a node, for this reason; ``by`` names the person who asked."""

    node: str
    reason: str
    by: str = ""


@dataclass(frozen=True)
class Renew:
    """Quarantine the node again: it was made anew, and its machine is still the same."""

    node: str
    node_uid: str
