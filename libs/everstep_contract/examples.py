"""One example of every message: documentation, and payloads that must parse for ever."""

from datetime import UTC, datetime, timedelta
from typing import Final

from everstep_contract import checkpoint_queries as checkpoints
from everstep_contract.base import Message
from everstep_contract.dead import DeadLetter
from everstep_contract.facts.checkpoint import (
    CheckpointCommitted,
    CheckpointDamaged,
    SaveFailed,
    ShardPrepared,
)
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import (
    ClusterWritten,
    ContainerObserved,
    JobObserved,
    OrderIssued,
    PodObserved,
    RescaleAnswered,
    StepAdvanced,
    VerdictReached,
)
from everstep_contract.facts.member import (
    MemberFormed,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
    OrderRefused,
)
from everstep_contract.facts.node import (
    NodeCondition,
    NodeObserved,
    NodeQuarantined,
    NodeReleased,
    NodeWritten,
    WatcherBlinded,
    WatcherSighted,
)
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.identity import Endpoint, GangSpec, JobKey, Member, Seat
from everstep_contract.node_queries import (
    DrainNode,
    NodeStanding,
    NodeStatus,
    QuarantineNode,
    ReleaseNode,
)
from everstep_contract.orders import Order
from everstep_contract.queries import (
    CommandAccepted,
    JobStatus,
    JobStatusReply,
    LatestCheckpoint,
    LatestCheckpointReply,
    ProbeMember,
    ProbeReply,
    Refused,
    RescaleJob,
    ResumeJob,
    SuspendJob,
)
from everstep_contract.record import (
    CheckpointRecord,
    Durations,
    Exclusion,
    GenerationStart,
    IncidentRecord,
    JobRecord,
    NodeRecord,
)
from everstep_contract.rescaling import JobSize
from everstep_contract.telemetry import MemberReport, WorkerReport
from everstep_contract.verdicts import Evidence, Shrink

_FAULT: Final = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
_JOB: Final = JobKey(namespace="training", name="llama.ft")
_JOB_UID: Final = "5f1c2d9a-7a64-4c1e-9a53-0e7b0a5a3f10"
_VERDICT_ID: Final = "shrink-8-c4a1"
_INCIDENT_ID: Final = "llama.ft-7-1"
_GANG: Final = GangSpec(min_member=6, max_member=8, nproc_per_node=8)
_DURATIONS: Final = Durations(
    form_seconds=10.0, construct_seconds=2.0, hold_seconds=600.0, self_fence_seconds=60.0
)


def _at(seconds: float) -> datetime:
    return _FAULT + timedelta(seconds=seconds)


def _member(index: int) -> Member:
    return Member(
        job_uid=_JOB_UID,
        name=f"llama.ft-worker-{index}",
        pod_uid=f"00000000-0000-4000-8000-00000000000{index}",
        incarnation=f"llama.ft-worker-{index}-1",
        node=f"node-{index}.rack-a",
    )


def _seat(index: int) -> Seat:
    return Seat(
        member=_member(index),
        peer=Endpoint(host=f"10.0.0.{10 + index}", port=29600),
        store=Endpoint(host=f"10.0.0.{10 + index}", port=29500),
        nproc=8,
    )


_LOST: Final = _member(7)
_SEATS: Final = tuple(_seat(index) for index in range(7))
_WITNESS: Final = _member(0)
_VERDICT: Final = Shrink(lost=(_LOST.incarnation,))
_REASON: Final = "7 survivors >= min_member 6"
_EVIDENCE: Final = (
    Evidence(kind="connection_stale", incarnation=_LOST.incarnation, witness="node_watcher"),
    Evidence(kind="probe_silent", incarnation=_LOST.incarnation, witness=_WITNESS.incarnation),
)
_OPENED: Final = IncidentRecord(
    id=_INCIDENT_ID,
    job=_JOB,
    job_uid=_JOB_UID,
    opened_at=_at(0.7),
    suspected=(_LOST,),
    generation_before=7,
    milestones={"noticed": _at(0.7)},
)
_ENDED: Final = _OPENED.model_copy(
    update={
        "verdict": "shrink",
        "reason": _REASON,
        "evidence": _EVIDENCE,
        "generation_after": 8,
        "milestones": {
            "noticed": _at(0.7),
            "confirmed": _at(0.95),
            "decided": _at(0.96),
            "ordered": _at(0.97),
            "left_old_group": _at(1.0),
            "agreed": _at(1.1),
            "first_new_step": _at(1.3),
        },
        "steps_lost": 0,
        "outcome": "resumed",
        "ended_at": _at(1.3),
    }
)
_ORDER: Final = Order(
    job=_JOB,
    job_uid=_JOB_UID,
    generation=8,
    verdict_id=_VERDICT_ID,
    state="run",
    seats=_SEATS,
    store_host=_WITNESS.incarnation,
    start_step=12_400,
    history=(GenerationStart(generation=7, start_step=0),),
    durations=_DURATIONS,
)
_RECORD: Final = JobRecord(
    job=_JOB,
    job_uid=_JOB_UID,
    generation=8,
    verdict_id=_VERDICT_ID,
    verdict=_VERDICT,
    reason=_REASON,
    evidence=_EVIDENCE,
    decided_at=_at(0.96),
    phase="resumed",
    state="run",
    gang=_GANG,
    seats=_SEATS,
    store_host=_WITNESS.incarnation,
    start_step=12_400,
    durations=_DURATIONS,
    history=(GenerationStart(generation=7, start_step=0),),
    excluded=(Exclusion(member=_LOST, evidence=_EVIDENCE, since=_at(0.96)),),
    incident=_INCIDENT_ID,
    lease_revision=3,
)
_CHECKPOINT: Final = CheckpointRecord(
    job=_JOB,
    checkpoint="g7-s12000",
    lineage=_JOB_UID,
    generation=7,
    step=12_000,
    path="/checkpoints/training.llama=2Eft/g7-s12000-5b6d8a0c",
    total_bytes=140_000_000_000,
    committed_at=_at(-600),
)
_REPORT: Final = MemberReport(
    at=_at(1.0),
    job=_JOB,
    member=_WITNESS,
    gang=_GANG,
    peer=_SEATS[0].peer,
    store=_SEATS[0].store,
    boot_id="1b6d3f0e-5f8b-4b8e-8d7a-3f2b1c0d9e8f",
    sequence=52,
    phase="joined",
    generation=8,
    verdict_id=_VERDICT_ID,
    left_generation=7,
    step=12_400,
    step_begun=12_401,
    step_seconds_p50=1.9,
    step_seconds_p99=2.3,
    workers=(
        WorkerReport(local_rank=0, pid=4242, version=12_400, step_begun=12_401, phase="form"),
    ),
)


_DRAINED: Final = NodeRecord(
    node=_LOST.node,
    boot_id="9c2e",
    quarantined_by="operator-20260115T123320",
    cause="maintenance",
    by="ada@rack-a-desk",
    drain_seconds=3600.0,
    cordoned_by_us=True,
    tainted_by_us=True,
    reason="new DIMMs",
    at=_at(2000),
)


def _node_examples() -> tuple[Message, ...]:
    node = _LOST.node
    return (
        NodeObserved(
            at=_at(40),
            node=node,
            ready="Unknown",
            ready_reason="NodeStatusUnknown: Kubelet stopped posting node status.",
            boot_id="9c2e",
            node_uid="3c1f6d2e-1f0a-4d55-9c11-8d3c2b7f6a90",
            conditions=(
                NodeCondition(type="GpuXidError", status="True", reason="79", meaning="hardware"),
            ),
            taints=("node.kubernetes.io/unreachable:NoExecute",),
            cordoned=True,
            resource_version="81723",
        ),
        NodeQuarantined(at=_at(60), node=node, incident=_INCIDENT_ID, reason="60 s of silence"),
        NodeReleased(at=_at(900), node=node, incident=_INCIDENT_ID, reason="another boot id"),
        NodeWritten(
            at=_at(2000),
            node=node,
            verb="taint",
            incident=_DRAINED.quarantined_by or "",
            by=_DRAINED.by,
            reason=_DRAINED.reason,
            outcome="done",
        ),
        WatcherBlinded(at=_at(0), node="node-0.rack-b", episode=1, detail="2 of 2 canaries gone"),
        WatcherSighted(at=_at(3), node="node-0.rack-b", episode=1),
    )


def _member_examples() -> tuple[Message, ...]:
    about = {"job": _JOB, "member": _WITNESS}
    ruling = {"generation": 8, "verdict_id": _VERDICT_ID}
    lost = {"job": _JOB, "member": _LOST, "witness": "node_watcher", "observation": 1}
    return (
        MemberJoined(at=_at(1.0), **about, **ruling, report=_REPORT),
        MemberFormed(
            at=_at(1.1),
            **about,
            **ruling,
            agreed_step=12_400,
            steps_lost=0,
            left_seconds=0.03,
            formed_seconds=0.13,
        ),
        MemberLeft(at=_at(90), **about, reason="terminated", detail="signal 15"),
        OrderRefused(at=_at(1.0), **about, **ruling, obeyed_verdict_id="shrink-8-77f0"),
        MemberSuspected(at=_at(0.7), **lost, reason="connection_stale", silence_seconds=0.7),
        MemberRecovered(at=_at(2.0), **lost),
        WorkerExited(
            at=_at(0.01),
            **about,
            local_rank=3,
            pid=4245,
            generation=7,
            signal=9,
            classified="killed",
        ),
        CollectiveFailed(
            at=_at(0.2),
            **about,
            local_rank=0,
            generation=7,
            verdict_id="form-7-09ab",
            peer=_LOST.incarnation,
            detail="connection reset by peer",
        ),
        _REPORT,
    )


def _job_examples() -> tuple[Message, ...]:
    about = {"job": _JOB, "job_uid": _JOB_UID}
    return (
        JobObserved(
            at=_at(-9), **about, gang=_GANG, annotated_generation=7, resource_version="81002"
        ),
        PodObserved(
            at=_at(70),
            **about,
            pod=_LOST.name,
            pod_uid=_LOST.pod_uid,
            node=_LOST.node,
            phase="Running",
            terminating=True,
            cause="preempted",
            planned=True,
            grace_seconds=30,
            containers=(
                ContainerObserved(
                    name="train", state="terminated", reason="OOMKilled", exit_code=137, restarts=1
                ),
            ),
            resource_version="81990",
        ),
        VerdictReached(
            at=_at(0.96),
            **about,
            verdict_id=_VERDICT_ID,
            generation=8,
            verdict=_VERDICT,
            reason=_REASON,
            evidence=_EVIDENCE,
            incident=_INCIDENT_ID,
        ),
        OrderIssued(at=_at(0.97), **about, order=_ORDER),
        StepAdvanced(
            at=_at(1.3),
            **about,
            member=_WITNESS,
            generation=8,
            verdict_id=_VERDICT_ID,
            step=12_401,
            first=True,
            step_seconds=1.9,
        ),
        ClusterWritten(
            at=_at(1.0), **about, verb="annotate", target="llama.ft", generation=8, outcome="done"
        ),
        RescaleAnswered(
            at=_at(900),
            **about,
            wish="7-81-rescale",
            answer="possible",
            size=JobSize(replicas=8, min_available=6),
        ),
        IncidentOpened(at=_at(0.7), **about, incident=_OPENED),
        IncidentEnded(at=_at(1.3), **about, incident=_ENDED),
        _ORDER,
    )


def _checkpoint_examples() -> tuple[Message, ...]:
    return (
        ShardPrepared(
            at=_at(-601),
            job=_JOB,
            member=_WITNESS,
            checkpoint=_CHECKPOINT.checkpoint,
            generation=7,
            step=12_000,
            shard=0,
            shards=64,
            path="/checkpoints/training.llama=2Eft/.tmp-g7-s12000-5c0f1a2b/shard-00000.safetensors",
            total_bytes=2_187_500_000,
            xxh3_128="99aa06d3014798d86001c324468d497f",
        ),
        SaveFailed(
            at=_at(-605),
            job=_JOB,
            member=_WITNESS,
            checkpoint=_CHECKPOINT.checkpoint,
            generation=7,
            step=12_000,
            kind="state",
            shard=0,
            trouble="full",
            attempt=1,
            detail="state-00000-of-00001-f61.safetensors: no room left",
        ),
        CheckpointDamaged(
            at=_at(1.1),
            job=_JOB,
            member=_WITNESS,
            checkpoint=_CHECKPOINT.checkpoint,
            detail="state-00000.safetensors: its hash is not the one that was written",
        ),
        CheckpointCommitted(at=_at(-600), job=_JOB, job_uid=_JOB_UID, record=_CHECKPOINT),
    )


def _query_examples() -> tuple[Message, ...]:
    return (
        Refused(reason="generation 7 is not the job's newest, 8"),
        ProbeMember(
            job=_JOB,
            witness=_WITNESS.incarnation,
            target=_LOST.incarnation,
            endpoint=_seat(7).peer,
            timeout_seconds=0.25,
        ),
        ProbeReply(
            target=_LOST.incarnation,
            outcome="silent",
            witness=_WITNESS.incarnation,
            seconds=0.25,
        ),
        LatestCheckpoint(job=_JOB),
        LatestCheckpointReply(record=_CHECKPOINT),
        checkpoints.ListCheckpoints(job=_JOB),
        checkpoints.ListCheckpointsReply(
            checkpoints=(checkpoints.CheckpointListing(record=_CHECKPOINT, standing="newest"),)
        ),
        checkpoints.PinCheckpoint(job=_JOB, checkpoint=_CHECKPOINT.checkpoint),
        checkpoints.CheckpointPinned(record=_CHECKPOINT.model_copy(update={"pinned": True})),
        checkpoints.PruneCheckpoints(job=_JOB, dry_run=True),
        checkpoints.PruneCheckpointsReply(checkpoints=(_CHECKPOINT,), dry_run=True),
        JobStatus(job=_JOB),
        JobStatusReply(record=_RECORD, incidents=(), waiting_for=""),
        SuspendJob(job=_JOB, generation=8, reason="maintenance of rack a"),
        ResumeJob(job=_JOB, generation=9, reason="maintenance is over"),
        RescaleJob(
            job=_JOB, generation=9, replicas=6, min_available=5, reason="two nodes for the others"
        ),
        CommandAccepted(generation=9),
        NodeStatus(node=_LOST.node),
        QuarantineNode(node=_LOST.node, reason="its fan rattles", by=_DRAINED.by),
        ReleaseNode(node=_LOST.node, reason="new DIMMs are in", by=_DRAINED.by),
        DrainNode(node=_LOST.node, reason=_DRAINED.reason, by=_DRAINED.by, timeout_seconds=3600.0),
        NodeStanding(
            record=_DRAINED,
            said="cordoned and tainted; 1 member to evict",
            members=("training/llama.ft llama.ft-worker-7",),
            waiting_for="training/llama.ft stands at its floor of 6",
        ),
        DeadLetter(
            at=_at(5),
            subject="everstep.evt.v1.node.node-1.observed",
            consumer="adjudicator",
            cause="undecodable",
            reason="unknown message type 'everstep.node.vanished.v1'",
            deliveries=1,
            payload_base64="e30=",
        ),
    )


EXAMPLES: Final[dict[str, Message]] = {
    example.TYPE: example
    for example in (
        *_node_examples(),
        *_member_examples(),
        *_job_examples(),
        *_checkpoint_examples(),
        *_query_examples(),
    )
}
"""By message type; every message of the catalog has one."""
