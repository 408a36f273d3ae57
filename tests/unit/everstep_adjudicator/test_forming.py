"""R1, R5, R17: a generation's number, its id, its ranks, its store; and what is left out."""

from dataclasses import replace

from everstep_adjudicator.actions import Attempted
from everstep_adjudicator.forming import next_generation
from everstep_contract.facts.job import JobObserved
from everstep_contract.facts.member import OrderRefused
from support.courtroom import Courtroom, running
from support.gang import all_of, member
from support.messages import JOB


def test_r5_the_number_exceeds_our_own_memory() -> None:
    room = running()
    room.view = replace(room.view, known_generation=41)
    assert next_generation(room.view) == 42


def test_r5_the_number_exceeds_the_records() -> None:
    assert next_generation(running().view) == 2


def test_r5_the_number_exceeds_the_jobs_annotation() -> None:
    room = Courtroom(2, min_member=2)
    room.hear(
        JobObserved(
            at=room.now.at,
            job=JOB,
            job_uid="uid-1",
            gang=room.gang,
            annotated_generation=17,
            resource_version="1",
        )
    )
    room.start(*all_of(2))
    assert room.record.generation == 18


def test_r5_the_number_exceeds_what_living_agents_report() -> None:
    room = running()
    room.agents["trainer-3.1"].generation = 8
    room.fold(room.report_of("trainer-3.1"))
    assert next_generation(room.view) == 9


def test_r5_a_job_that_the_bus_forgot_goes_on_above_the_generations_that_it_saved() -> None:
    room = running()
    first, *_ = room.agents
    room.fold(room.report_of(first, saved_generation=7))
    assert next_generation(room.view) == 8


def test_r9_a_refused_order_teaches_its_number() -> None:
    room = running()
    refused = OrderRefused(
        at=room.now.at,
        job=JOB,
        member=member(0),
        generation=12,
        verdict_id="x",
        obeyed_verdict_id="y",
    )
    room.hear(refused)
    assert next_generation(room.view) == 13


def test_verdict_ids_differ_by_leader_attempt_and_generation() -> None:
    room = running()
    room.fold(Attempted())
    room.lose(member(3))
    assert [record.verdict_id for record in room.records] == ["7-1-1", "7-3-2"]


def test_r1_a_remade_pod_of_the_same_name_is_a_newcomer() -> None:
    room = running()
    room.lose(member(0))
    room.obey()
    room.start(member(0, life=2))
    room.pass_time(3)
    assert room.names[0] == "trainer-1.1"
    assert room.names[-1] == "trainer-0.2"


def test_r17_the_store_stays_where_everybody_is_connected() -> None:
    room = running()
    room.lose(member(3))
    assert room.record.store_host == "trainer-0.1"


def test_r17_the_store_does_not_move_to_a_suspect() -> None:
    room = running()
    room.hear(room.suspicion(member(1), "connection_stale"))
    room.hear(room.departure(member(0)))
    room.pass_time(room.policy.settle_seconds)
    assert room.record.store_host == "trainer-2.1"


def test_the_excluded_are_remembered_until_their_name_is_back() -> None:
    room = running(8, min_member=4)
    room.lose(member(3))
    room.obey()
    room.pass_time(1)
    room.lose(member(5))
    assert [e.member.incarnation for e in room.record.excluded] == ["trainer-5.1", "trainer-3.1"]
    room.obey()
    room.start(member(3, life=2))
    room.pass_time(3)
    assert [e.member.incarnation for e in room.record.excluded] == ["trainer-5.1"]


def test_exclusions_carry_the_evidence_for_the_cluster_half() -> None:
    room = running()
    room.lose(member(3))
    assert [item.kind for item in room.record.excluded[0].evidence] == ["probe_refused"]


def test_an_order_carries_the_policys_durations() -> None:
    room = running()
    assert room.record.durations == room.policy.durations
