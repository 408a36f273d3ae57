"""What operators are told beyond a job's record."""

from everstep_adjudicator.actions import Recorded, Rule
from everstep_adjudicator.case import Case
from everstep_adjudicator.operators import obey
from everstep_adjudicator.telling import status_of
from everstep_contract.queries import SuspendJob
from support.courtroom import Courtroom, running
from support.messages import JOB


def suspended() -> Courtroom:
    room = running(3, min_member=2)
    room.step(4)
    command = SuspendJob(job=JOB, generation=room.view.generation, reason="maintenance")
    action = obey(Case.of(room.view, room.policy, room.now), command).action
    assert isinstance(action, Rule)
    room.hear(Recorded(action.record, room.view.revision + 1))
    return room


def test_a_member_has_parked_once_it_holds_under_the_current_generation() -> None:
    room = suspended()
    assert status_of(room.view, "").parked == 0
    room.obey("trainer-0.1", "trainer-2.1")
    assert status_of(room.view, "").parked == 2


def test_the_newest_step_of_any_member_is_told_while_the_job_holds() -> None:
    assert status_of(suspended().view, "").step == 5


def test_a_job_without_a_record_has_nothing_to_tell() -> None:
    reply = status_of(Courtroom(2).view, "2 more members")
    assert (reply.record, reply.step, reply.parked) == (None, 0, 0)
    assert reply.waiting_for == "2 more members"
