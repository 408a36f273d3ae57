"""R4 and R6: a generation's phases, and what the record remembers of it."""

from everstep_adjudicator.actions import Recorded
from everstep_adjudicator.model import JobView
from everstep_contract.facts.job import JobObserved
from everstep_contract.record import GenerationStart
from support.courtroom import Courtroom, running
from support.gang import all_of, member
from support.messages import JOB


def forming() -> Courtroom:
    room = Courtroom(3, min_member=2)
    room.start(*all_of(3))
    return room


def test_a_generation_is_formed_when_every_member_is() -> None:
    room = forming()
    room.obey(until="joined")
    room.hear(room.forms("trainer-0.1"), room.forms("trainer-1.1"))
    assert room.phase() == "decided"
    room.hear(room.forms("trainer-2.1"))
    assert room.phase() == "formed"


def test_r4_the_record_remembers_who_formed_it_and_where_it_began() -> None:
    room = running(3, min_member=2)
    room.agents["trainer-0.1"].step = 41
    room.lose(member(2))
    room.obey()
    record = room.record
    assert record.formed_by == ("trainer-0.1", "trainer-1.1")
    assert (record.formed_generation, record.resumed_generation) == (2, 2)
    assert record.start_step == 41
    assert record.history[-1] == GenerationStart(generation=2, start_step=41)


def test_a_lost_fact_of_forming_costs_one_report() -> None:
    room = forming()
    room.obey(until="joined")
    for agent in room.agents.values():
        agent.phase = "formed"
    room.pass_time(0.6)
    assert room.record.phase == "formed"


def test_a_completed_step_proves_that_everybody_formed() -> None:
    room = forming()
    room.obey("trainer-0.1", until="formed")
    room.hear(room.steps("trainer-0.1"))
    assert (room.record.phase, room.record.formed_generation) == ("resumed", 1)


def test_a_step_of_another_generation_proves_nothing() -> None:
    room = forming()
    room.obey(until="joined")
    step = room.steps("trainer-0.1")
    room.hear(step.model_copy(update={"verdict_id": "another"}))
    assert room.record.phase == "decided"


def test_r6_after_a_restart_the_phase_goes_on_from_the_record() -> None:
    room = forming()
    room.obey(until="joined")
    record = room.record
    room.view = JobView(job=JOB, lease_revision=9)
    room.hear(Recorded(record, 4))
    for agent in room.agents.values():
        agent.phase = "stepping"
    room.pass_time(0.6)
    assert room.record.phase == "resumed"
    assert room.verdicts == ["form"]


def test_r6_after_a_restart_the_records_event_is_announced_again() -> None:
    room = forming()
    room.view = JobView(job=JOB, lease_revision=9)
    room.hear(Recorded(room.records[-1], 4))
    assert room.view.announced == room.records[-1].verdict_id


def test_r6_after_a_restart_the_deadline_starts_again() -> None:
    room = forming()
    room.obey("trainer-0.1", "trainer-1.1", until="joined")
    room.pass_time(room.policy.form_seconds - 1)
    room.view = JobView(job=JOB, lease_revision=9)
    room.hear(Recorded(room.records[-1], 4))
    room.pass_time(room.policy.form_seconds - 1)
    assert room.verdicts == ["form"]
    room.pass_time(2)
    assert room.verdicts == ["form", "shrink"]


def test_a_deleted_job_ends() -> None:
    room = forming()
    room.hear(
        JobObserved(
            at=room.now.at,
            job=JOB,
            job_uid="uid-1",
            gang=room.gang,
            annotated_generation=1,
            deleted=True,
            resource_version="8",
        )
    )
    assert room.record.phase == "ended"
