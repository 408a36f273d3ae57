"""Small valid messages for tests of the bus."""

from datetime import UTC, datetime

from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberLeft
from everstep_contract.identity import Endpoint, GangSpec, JobKey, Member, Seat
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember, ProbeReply
from everstep_contract.record import Durations, JobRecord, LeaseRecord
from everstep_contract.telemetry import MemberReport
from everstep_contract.verdicts import Form

AT = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
JOB = JobKey(namespace="team.a", name="llama.ft")
OTHER_JOB = JobKey(namespace="team-b", name="bert")
ENDPOINT = Endpoint(host="10.0.0.1", port=29600)
DURATIONS = Durations(form_seconds=10, construct_seconds=2, hold_seconds=60, self_fence_seconds=60)


def member(index: int) -> Member:
    return Member(
        job_uid="uid-1",
        name=f"worker-{index}",
        pod_uid=f"pod-{index}",
        incarnation=f"worker-{index}.1",
        node=f"node-{index}.rack-a",
    )


def step_advanced(step: int, job: JobKey = JOB, index: int = 0) -> StepAdvanced:
    return StepAdvanced(
        at=AT,
        job=job,
        job_uid="uid-1",
        member=member(index),
        generation=1,
        verdict_id="form-1",
        step=step,
        first=step == 1,
        step_seconds=0.1,
    )


def member_left(index: int) -> MemberLeft:
    return MemberLeft(at=AT, job=JOB, member=member(index), reason="finished")


def report(index: int, sequence: int, job: JobKey = JOB) -> MemberReport:
    return MemberReport(
        at=AT,
        job=job,
        member=member(index),
        gang=GangSpec(min_member=1, max_member=2, nproc_per_node=1),
        peer=ENDPOINT,
        store=ENDPOINT,
        boot_id="boot-1",
        sequence=sequence,
        phase="ready",
        generation=0,
        step=0,
        step_begun=0,
        workers=(),
    )


def order(generation: int, verdict_id: str = "", job: JobKey = JOB) -> Order:
    seat = Seat(member=member(0), peer=ENDPOINT, store=ENDPOINT, nproc=1)
    return Order(
        job=job,
        job_uid="uid-1",
        generation=generation,
        verdict_id=verdict_id or f"form-{generation}",
        state="run",
        seats=(seat,),
        durations=DURATIONS,
    )


def record(generation: int, job: JobKey = JOB) -> JobRecord:
    return JobRecord(
        job=job,
        job_uid="uid-1",
        generation=generation,
        verdict_id=f"form-{generation}",
        verdict=Form(),
        reason="all joined",
        decided_at=AT,
        phase="decided",
        state="run",
        gang=GangSpec(min_member=1, max_member=2, nproc_per_node=1),
        seats=(),
        durations=DURATIONS,
        lease_revision=1,
    )


def lease(renewals: int) -> LeaseRecord:
    return LeaseRecord(holder="adjudicator-1", renewals=renewals)


def probe(witness: int = 1, job: JobKey = JOB) -> ProbeMember:
    return ProbeMember(
        job=job,
        witness=member(witness).incarnation,
        target=member(0).incarnation,
        endpoint=ENDPOINT,
        timeout_seconds=0.25,
    )


def probe_reply(query: ProbeMember) -> ProbeReply:
    return ProbeReply(target=query.target, outcome="alive", witness=query.witness, seconds=0.01)
