"""From what a drill saw to its document, and why it is not healed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from everstep_cli.drill.document import Against, Leftovers, TorchrunResult
from everstep_cli.drill.faults import FAULTS, FaultName
from everstep_cli.drill.judge import Observations, document_of, shortfalls
from everstep_cli.drill.worker_logs import StepLine
from everstep_contract.facts.job import OrderIssued, VerdictReached
from everstep_contract.facts.member import MemberSuspected
from everstep_contract.identity import Endpoint, JobKey, Member, Seat
from everstep_contract.orders import Order
from everstep_contract.record import Durations, IncidentRecord
from everstep_contract.verdicts import Shrink, Tolerate

FAULT_AT = datetime(2026, 1, 1, tzinfo=UTC)
JOB = JobKey(namespace="training", name="drill")
ABOUT = {"job": JOB, "job_uid": "uid"}
DURATIONS = Durations(form_seconds=5, construct_seconds=2, hold_seconds=60, self_fence_seconds=30)


def at(seconds: float) -> datetime:
    return FAULT_AT + timedelta(seconds=seconds)


def member(index: int) -> Member:
    return Member(
        job_uid="uid",
        name=f"m{index}",
        pod_uid=f"p{index}",
        incarnation=f"i{index}",
        node=f"n{index}",
    )


def ordered(seconds: float, generation: int, members: int) -> OrderIssued:
    there = Endpoint(host="127.0.0.1", port=1)
    seats = tuple(Seat(member=member(i), peer=there, store=there, nproc=1) for i in range(members))
    order = Order(
        **ABOUT,
        generation=generation,
        verdict_id=f"v{generation}",
        state="run",
        seats=seats,
        durations=DURATIONS,
    )
    return OrderIssued(at=at(seconds), **ABOUT, order=order)


def ruled(seconds: float, verdict: Shrink | Tolerate, generation: int = 2) -> VerdictReached:
    return VerdictReached(
        at=at(seconds),
        **ABOUT,
        verdict_id="v2",
        generation=generation,
        verdict=verdict,
        reason="why",
    )


def stepped(seconds: float, generation: int, step: int, members: int) -> tuple[StepLine, ...]:
    """One step of every worker; the pid of member i is 100 + i."""
    instant = at(seconds).timestamp()
    return tuple(
        StepLine(instant, 100 + i, i, members, generation, step, 5.0 - step / 10)
        for i in range(members)
    )


INCIDENT = IncidentRecord(
    id="incident-1",
    job=JOB,
    job_uid="uid",
    opened_at=at(0.02),
    suspected=(member(7),),
    verdict="shrink",
    generation_before=1,
    generation_after=2,
    milestones={"noticed": at(0.02), "decided": at(0.05), "first_new_step": at(9)},
    steps_lost=0,
    outcome="resumed",
)
HEALED = Observations(
    fault=FAULTS[FaultName.CRASH],
    target="m7",
    fault_at=FAULT_AT,
    min_member=6,
    nproc=1,
    events=(ordered(-60, 1, 8), ruled(0.05, Shrink(lost=("i7",))), ordered(0.06, 2, 7)),
    incidents=(INCIDENT,),
    steps=tuple(
        line
        for number in range(1, 13)
        for line in stepped(
            number - 6.5 if number < 7 else number / 10,
            1 if number < 7 else 2,
            number,
            8 if number < 7 else 7,
        )
    ),
    hurt=frozenset({"i7"}),
    hurt_pids=frozenset({107}),
)
NOTHING_LEFT = Leftovers(processes=0, shared_memory_files=0)


def test_what_was_expected_and_happened_is_healed() -> None:
    assert shortfalls(HEALED) == ()
    assert document_of(HEALED, Against(), NOTHING_LEFT).succeeded


def test_the_first_new_step_is_the_workers_own_word() -> None:
    milestones = document_of(HEALED, Against(), NOTHING_LEFT).milestones_seconds
    assert (milestones["noticed"], milestones["first_new_step"]) == (0.02, 0.7)
    assert milestones["agreed"] is None


def test_members_and_generations_are_those_of_the_orders() -> None:
    found = document_of(HEALED, Against(), NOTHING_LEFT)
    assert (found.members_before, found.members_lowest, found.members_after) == (8, 7, 7)
    assert (found.generation_before, found.generation_after) == (1, 2)


def test_a_ratio_needs_both_numbers() -> None:
    theirs = TorchrunResult(healed=True, first_new_step_seconds=21.0, steps_lost=3)
    never = TorchrunResult(healed=False, first_new_step_seconds=None, steps_lost=None)
    assert document_of(HEALED, Against(torchrun=theirs), NOTHING_LEFT).ratio == 30.0
    assert document_of(HEALED, Against(torchrun=never), NOTHING_LEFT).ratio is None


def test_another_verdict_than_expected_is_not_healed() -> None:
    seen = replace(HEALED, fault=FAULTS[FaultName.WORKER])
    assert "expected restart_workers, ruled shrink" in shortfalls(seen)


def test_tolerating_before_the_verdict_is_no_verdict_of_its_own() -> None:
    seen = replace(HEALED, events=(ruled(0.03, Tolerate(), generation=1), *HEALED.events))
    assert document_of(seen, Against(), NOTHING_LEFT).verdicts == ("shrink",)


def test_a_job_that_did_not_go_on_is_not_healed() -> None:
    seen = replace(HEALED, steps=tuple(s for s in HEALED.steps if s.step < 8))
    assert "the last generation completed 1 steps" in shortfalls(seen)


def test_an_open_incident_is_not_healed() -> None:
    seen = replace(HEALED, incidents=(INCIDENT.model_copy(update={"outcome": None}),))
    assert "incident incident-1 was left open" in shortfalls(seen)


def test_a_step_below_the_floor_is_not_healed() -> None:
    seen = replace(HEALED, steps=HEALED.steps + stepped(2, 2, 13, 5))
    assert "a step was taken with 5 workers" in shortfalls(seen)


def test_a_step_of_an_old_generation_after_the_new_one_stepped_is_not_healed() -> None:
    ghost = replace(HEALED.steps[7], at=at(2).timestamp())
    seen = replace(HEALED, steps=(*HEALED.steps, ghost))
    assert any("stepped in generation 1" in why for why in shortfalls(seen))


def test_what_was_waited_for_in_vain_is_not_healed() -> None:
    assert "no step" in shortfalls(replace(HEALED, problem="no step"))


def test_a_suspicion_of_a_member_that_nobody_hurt_is_false() -> None:
    suspected = MemberSuspected(
        at=at(1),
        job=JOB,
        member=member(3),
        reason="connection_stale",
        witness="node_watcher",
        observation=1,
        silence_seconds=1,
    )
    seen = replace(HEALED, events=(*HEALED.events, suspected))
    assert document_of(seen, Against(), NOTHING_LEFT).false_suspicions == 1
