"""Members, records and reports of one made-up job, for tests of the services."""

from datetime import UTC, datetime
from typing import Any

from everstep_contract.identity import Endpoint, GangSpec, Member, Seat
from everstep_contract.record import Durations, JobRecord
from everstep_contract.telemetry import MemberReport, WorkerReport
from everstep_contract.verdicts import Form
from support.messages import JOB as JOB

JOB_UID = "5f1c2d9a-7a64-4c1e-9a53-0e7b0a5a3f10"
GANG = GangSpec(min_member=6, max_member=8, nproc_per_node=1)
DURATIONS = Durations(
    form_seconds=10.0, construct_seconds=2.0, hold_seconds=600.0, self_fence_seconds=60.0
)
NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


def member(index: int, life: int = 1, *, node: str | None = None) -> Member:
    """The ``life``-th incarnation of the job's member ``index``, on its own node."""
    return Member(
        job_uid=JOB_UID,
        name=f"llama.ft-worker-{index}",
        pod_uid=f"pod-{index}-{life}",
        incarnation=f"worker-{index}-{life}",
        node=node or f"node-{index}.rack-a",
    )


def seat(of: Member, index: int = 0) -> Seat:
    """A place in a generation."""
    address = f"10.0.0.{index + 1}"
    return Seat(
        member=of,
        peer=Endpoint(host=address, port=29600),
        store=Endpoint(host=address, port=29500),
        nproc=1,
    )


def record(generation: int, members: tuple[Member, ...], **changes: Any) -> JobRecord:
    """A running job's record, with ``changes`` to its fields."""
    fields: dict[str, Any] = {
        "job": JOB,
        "job_uid": JOB_UID,
        "generation": generation,
        "verdict_id": f"verdict-{generation}",
        "verdict": Form(),
        "reason": "all joined",
        "decided_at": NOW,
        "phase": "decided",
        "state": "run",
        "gang": GANG,
        "seats": tuple(seat(each, index) for index, each in enumerate(members)),
        "store_host": members[0].incarnation if members else None,
        "durations": DURATIONS,
        "lease_revision": 1,
    }
    return JobRecord(**{**fields, **changes})


def report(of: Member, sequence: int = 1, **changes: Any) -> MemberReport:
    """What an agent says of itself, with ``changes`` to its fields."""
    place = seat(of)
    fields: dict[str, Any] = {
        "at": NOW,
        "job": JOB,
        "member": of,
        "gang": GANG,
        "peer": place.peer,
        "store": place.store,
        "boot_id": "boot-1",
        "sequence": sequence,
        "phase": "ready",
        "generation": 0,
        "step": 0,
        "step_begun": 0,
        "workers": (WorkerReport(local_rank=0, pid=100, version=0, step_begun=0, phase="step"),),
    }
    return MemberReport(**{**fields, **changes})
