"""From what a drill saw to its document, and why it is not healed."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from everstep_cli.drill.cluster_judge import ClusterSeen, ClusterState
from everstep_cli.drill.document import Against, Leftovers, TorchrunResult
from everstep_cli.drill.fault import FaultName
from everstep_cli.drill.faults import FAULTS
from everstep_cli.drill.judge import Observations, document_of, shortfalls
from everstep_cli.drill.worker_logs import StepLine
from everstep_contract.facts.checkpoint import SaveFailed
from everstep_contract.facts.job import OrderIssued, VerdictReached
from everstep_contract.facts.member import MemberFormed, MemberSuspected, StateSource
from everstep_contract.identity import Endpoint, JobKey, Member, Seat
from everstep_contract.manifest import Manifest, ShardFile
from everstep_contract.orders import Order
from everstep_contract.record import Durations, IncidentRecord
from everstep_contract.verdicts import (
    AwaitReplacement,
    Evidence,
    EvidenceKind,
    Form,
    Shrink,
    Tolerate,
    Verdict,
)

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


def ruled(seconds: float, verdict: Verdict, generation: int = 2) -> VerdictReached:
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


def checkpoint(step: int) -> Manifest:
    return Manifest(
        job=JOB,
        checkpoint=f"g1-s{step}",
        lineage="uid",
        generation=1,
        step=step,
        shards=(ShardFile(file="0-a.safetensors", total_bytes=10, xxh3_128="0" * 32),),
        history=(),
        committed_at=at(-1),
    )


def formed(index: int, step: int, source: StateSource = "disk", name: str = "") -> MemberFormed:
    """A member's word, half a second after the order of generation 3, at second 4."""
    return MemberFormed(
        at=at(4.5),
        job=JOB,
        member=member(10 + index),
        generation=3,
        verdict_id="v3",
        agreed_step=step,
        steps_lost=0,
        left_seconds=0.1,
        formed_seconds=0.5,
        source=source,
        checkpoint=name,
        chosen_seconds=0.2,
        loaded_seconds=0.3 + index / 100,
    )


def cold_start(first_step: int, *told: MemberFormed) -> Observations:
    """All members died after step 6, and began again at ``first_step``."""
    before = tuple(line for number in range(1, 7) for line in stepped(number - 6.5, 1, number, 8))
    after = tuple(
        replace(line, pid=line.pid + 100)
        for number in range(first_step, first_step + 9)
        for line in stepped(5 + number / 10, 3, number, 8)
    )
    held = INCIDENT.model_copy(update={"outcome": "holding", "verdict": "await_replacement"})
    return replace(
        HEALED,
        fault=FAULTS[FaultName.WHOLE_JOB],
        events=(
            ordered(-60, 1, 8),
            ruled(0.05, AwaitReplacement(lost=("i0",), wait_seconds=60)),
            ordered(0.06, 2, 0),
            ruled(3.9, Form(), generation=3),
            ordered(4, 3, 8),
            *told,
        ),
        incidents=(held,),
        steps=(*before, *after),
        hurt=frozenset(f"i{index}" for index in range(8)),
        hurt_pids=frozenset(range(100, 108)),
        best=checkpoint(4),
    )


def all_formed(step: int, source: StateSource = "disk", name: str = "") -> list[MemberFormed]:
    return [formed(index, step, source, name) for index in range(8)]


def test_a_whole_job_that_went_on_from_its_newest_checkpoint_is_healed() -> None:
    assert shortfalls(cold_start(5, *all_formed(4, name="g1-s4"))) == ()


def test_the_way_to_the_state_is_told_in_seconds_from_the_fault() -> None:
    seen = cold_start(5, *all_formed(4, name="g1-s4"))
    document = document_of(seen, Against(), NOTHING_LEFT)
    assert document.restored is not None
    assert document.restored.checkpoint == "g1-s4"
    assert document.restored.chosen_seconds == 4.2
    assert document.restored.loaded_seconds == 4.37
    assert document.milestones_seconds["ordered"] == 4.0
    assert document.milestones_seconds["agreed"] == 4.5
    assert document.steps_lost == 2


def test_an_older_checkpoint_than_the_newest_whole_one_is_not_healed() -> None:
    found = shortfalls(cold_start(3, *all_formed(2, name="g1-s2")))
    assert "g1-s2 was loaded, and g1-s4 was whole and newer" in found


def test_a_beginning_from_nothing_is_not_healed() -> None:
    found = shortfalls(cold_start(1, *all_formed(0, "fresh")))
    assert "the state came from fresh, not disk" in found


def test_members_that_went_on_from_different_states_are_not_healed() -> None:
    told = [*all_formed(4, name="g1-s4")[:7], formed(7, 2, name="g1-s2")]
    assert any("from 2 states" in why for why in shortfalls(cold_start(5, *told)))


def test_a_damaged_checkpoint_that_is_held_to_be_whole_is_not_healed() -> None:
    seen = replace(
        cold_start(5, *all_formed(4, name="g1-s4")),
        fault=FAULTS[FaultName.BAD_CHECKPOINT],
        damaged=checkpoint(6),
    )
    assert shortfalls(seen) == ()
    believed = replace(seen, believed=frozenset({"g1-s6"}))
    assert shortfalls(believed) == ("g1-s6 was damaged and is held to be whole",)


def test_more_steps_lost_than_a_fault_may_cost_are_not_healed() -> None:
    again = tuple(line for number in (6, 7) for line in stepped(0.65 + number / 100, 2, number, 7))
    seen = replace(HEALED, steps=(*HEALED.steps[:48], *again, *HEALED.steps[48 + 7 :]))
    assert "1 steps were lost, at most 0 may be" in shortfalls(seen)


def test_a_step_that_is_left_out_is_not_healed() -> None:
    seen = replace(HEALED, steps=tuple(s for s in HEALED.steps if s.step != 9))
    assert "rank 0 went from step 8 to 10 in generation 2" in shortfalls(seen)


def test_beside_a_full_disk_nothing_may_change() -> None:
    failed = SaveFailed(
        at=at(1),
        job=JOB,
        member=member(0),
        checkpoint="g1-s20",
        generation=1,
        step=20,
        kind="state",
        shard=0,
        trouble="full",
        attempt=1,
    )
    steps = tuple(line for n in range(1, 13) for line in stepped(n - 6.5, 1, n, 8))
    seen = replace(
        HEALED,
        fault=FAULTS[FaultName.DISK_FULL],
        events=(ordered(-60, 1, 8), failed),
        incidents=(),
        steps=steps,
    )
    assert shortfalls(seen) == ()
    assert document_of(seen, Against(), NOTHING_LEFT).saves_failed == 1
    assert shortfalls(replace(seen, incidents=(INCIDENT,))) == (
        "incident incident-1: nothing was to change",
    )


def left_in_peace(*kinds: EvidenceKind) -> Observations:
    """A pod was deleted; with these kinds of evidence about its member."""
    told = tuple(Evidence(kind=kind, incarnation="i7", witness="kubernetes") for kind in kinds)
    here = ClusterState(retries=0, uids={f"m{index}": f"p{index}" for index in range(8)}, noted=2)
    seen = ClusterSeen(here, here, frozenset({"m7"}), "n7", generation=2)
    fault = replace(FAULTS[FaultName.POD_DELETED], verdicts=(("shrink",),), members_lost=1)
    incident = INCIDENT.model_copy(update={"evidence": told})
    return replace(HEALED, fault=fault, incidents=(incident,), cluster=seen)


def test_ec54_a_member_that_was_asked_to_go_must_not_count_as_a_failure() -> None:
    assert shortfalls(left_in_peace("left", "planned")) == ()
    assert shortfalls(left_in_peace("left")) == ("i7 was asked to go, and it counts as a failure",)


def test_what_is_wrong_in_the_cluster_is_not_healed() -> None:
    seen = left_in_peace("planned")
    assert seen.cluster is not None
    retried = replace(seen.cluster, after=replace(seen.cluster.after, retries=1))
    assert shortfalls(replace(seen, cluster=retried)) == ("the Job's retries went from 0 to 1",)
