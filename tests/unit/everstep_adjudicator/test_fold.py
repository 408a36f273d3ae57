"""Facts come twice, late and in any order; what is known is keyed by incarnation (R1, EC-33)."""

from datetime import timedelta

from everstep_adjudicator.fold import fold
from everstep_adjudicator.fold_members import FORGET_SECONDS, is_heartbeat
from support.courtroom import Courtroom, running
from support.gang import member


def test_ec33_a_late_suspicion_of_a_dead_incarnation_does_not_touch_its_successor() -> None:
    room = running()
    late = room.suspicion(member(3))
    room.lose(member(3))
    room.obey()
    room.start(member(3, life=2))
    room.pass_time(3)
    room.obey()
    room.hear(late.model_copy(update={"observation": 9}))
    room.pass_time(5)
    assert room.verdicts == ["form", "shrink", "grow"]
    assert not room.view.standing("trainer-3.2")


def test_ec33_a_late_report_of_a_dead_incarnation_does_not_touch_its_successor() -> None:
    room = running()
    late = room.report_of("trainer-3.1", step=999)
    room.lose(member(3))
    room.obey()
    room.start(member(3, life=2))
    room.pass_time(3)
    room.obey()
    heard = room.view.members["trainer-3.2"].heard
    room.hear(late)
    assert room.view.members["trainer-3.2"].heard == heard
    assert room.verdicts == ["form", "shrink", "grow"]


def test_of_two_reports_the_higher_sequence_is_newer() -> None:
    room = running()
    older = room.report_of("trainer-0.1", phase="ready")
    room.hear(room.report_of("trainer-0.1"), older)
    assert room.view.members["trainer-0.1"].report.phase == "stepping"


def test_a_fact_heard_twice_changes_nothing() -> None:
    room = running()
    facts = [room.suspicion(member(3)), room.exit_of(member(4)), room.departure(member(5))]
    once = room.view
    for fact in facts:
        once = fold(once, fact, room.now)
    twice = once
    for fact in facts:
        twice = fold(twice, fact, room.now)
    assert twice == once


def test_a_suspicion_of_somebody_unknown_is_nothing() -> None:
    room = running()
    room.hear(room.suspicion(member(77)))
    assert not room.view.suspicions


def test_members_that_take_no_part_are_forgotten_and_seats_are_not() -> None:
    room = running()
    room.start(member(8))
    room.pass_time(FORGET_SECONDS + 2, reporting=False)
    room.hear(room.report_of("trainer-0.1"))
    assert "trainer-8.1" not in room.view.members
    assert "trainer-3.1" in room.view.members


def test_what_was_known_of_an_older_generation_ends_with_it() -> None:
    room = running()
    room.hear(room.collective_failure(member(0)), room.exit_of(member(4)))
    assert room.record.generation == 2
    assert not room.view.exits
    assert not room.view.collective_failures


def test_a_report_stamped_in_the_future_is_as_good_as_any() -> None:
    room = Courtroom(2, min_member=2)
    room.start(member(0), member(1))
    room.hear(room.report_of("trainer-0.1", at=room.now.at + timedelta(hours=1)))
    assert room.verdicts == ["form"]


def test_a_report_of_a_member_that_still_steps_is_a_heartbeat() -> None:
    room = running()
    before, report = room.view, room.report_of("trainer-0.1")
    assert is_heartbeat(before, fold(before, report, room.now), report)


def test_a_report_that_clears_somebody_is_more_than_a_heartbeat() -> None:
    room = running()
    room.fold(room.suspicion(member(3)), room.report_of("trainer-3.1"))
    before, report = room.view, room.report_of("trainer-3.1")
    assert not is_heartbeat(before, fold(before, report, room.now), report)


def test_a_report_of_another_phase_is_more_than_a_heartbeat() -> None:
    room = running()
    before, report = room.view, room.report_of("trainer-0.1", phase="leaving")
    assert not is_heartbeat(before, fold(before, report, room.now), report)
