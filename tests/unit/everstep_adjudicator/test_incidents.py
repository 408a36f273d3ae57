"""R27 and EC-69: every incident has a beginning, a timeline, a reason and an end."""

from itertools import pairwise

from everstep_adjudicator.actions import Filed, Recorded
from everstep_adjudicator.incidents import (
    FILING_SECONDS,
    LATE_FACTS_SECONDS,
    MILESTONES,
    stray,
)
from everstep_adjudicator.model import JobView
from support.courtroom import Courtroom, running
from support.gang import member
from support.messages import JOB


def test_r27_a_healed_loss_ends_resumed_with_its_reason() -> None:
    room = running()
    room.lose(member(3))
    room.obey()
    incident = room.incidents[-1]
    assert (incident.outcome, incident.verdict) == ("resumed", "shrink")
    assert incident.reason == "lost trainer-3; 7 survivors, min_member 6"
    assert [m.incarnation for m in incident.suspected] == ["trainer-3.1"]
    assert (incident.generation_before, incident.generation_after) == (1, 2)


def test_r27_a_hold_ends_holding() -> None:
    room = running(6, min_member=6)
    room.lose(member(2))
    assert room.incidents == []
    room.obey()
    assert room.incidents[-1].outcome == "holding"


def test_r27_a_hold_that_somebody_never_acknowledges_ends_holding_too() -> None:
    room = running(6, min_member=6)
    room.lose(member(2))
    room.pass_time(room.policy.form_seconds + 1, reporting=False)
    assert room.incidents[-1].outcome == "holding"


def test_r27_a_tolerated_suspicion_ends_dismissed_and_leaves_nothing_open() -> None:
    room = running()
    room.suspect(member(3))
    assert room.view.incident is not None
    room.answer(member(3), "alive")
    assert (room.incidents[-1].outcome, room.incidents[-1].verdict) == ("dismissed", "tolerate")
    cleared_by = room.incidents[-1].reason.removeprefix("trainer-3: it answers ")
    assert cleared_by in {member(index).name for index in range(8)}
    assert room.view.incident is None


def test_r27_a_suspicion_cleared_before_its_incident_was_filed_is_an_incident_all_the_same() -> (
    None
):
    room = running()
    room.hear(room.suspicion(member(3)))
    assert room.view.incident is None
    room.answer(member(3), "alive")
    room.pass_time(FILING_SECONDS)
    assert [(i.outcome, i.verdict) for i in room.incidents] == [("dismissed", "tolerate")]


def test_a_verdict_waits_for_no_books() -> None:
    room = running()
    room.hear(room.suspicion(member(3)))
    room.answer(member(3), "refused")
    assert room.verdicts[-1] == "shrink"
    assert room.view.incident is not None
    assert room.record.incident == room.view.incident.id


def test_r27_what_is_neither_proven_nor_cleared_ends_bounded() -> None:
    room = running()
    room.suspect(member(3), "node_not_ready")
    room.pass_time(room.policy.unresolved_seconds + 1, reporting=False)
    assert room.incidents[-1].outcome == "holding"
    assert room.incidents[-1].reason == "neither proven nor cleared in time"


def test_r27_an_incident_of_a_job_that_ends_is_dismissed() -> None:
    room = running(2, min_member=2)
    room.suspect(member(1))
    room.hear(*(room.departure(member(i), "finished") for i in range(2)))
    assert room.incidents[-1].reason == "the job has ended"


def test_an_undisturbed_job_has_no_incident() -> None:
    room = running()
    for _ in range(100):
        room.step()
        room.pass_time(0.5)
    assert room.incidents == []
    assert room.view.incident is None


def test_ec69_the_timeline_has_all_its_marks_in_order() -> None:
    room = running()
    room.suspect(member(3))
    room.pass_time(0.02)
    room.kill("trainer-3.1")
    room.answer(member(3), "refused")
    room.pass_time(0.1)
    room.obey()
    marks = room.incidents[-1].milestones
    assert tuple(marks) == MILESTONES
    assert all(marks[before] <= marks[after] for before, after in pairwise(MILESTONES))
    assert (marks["decided"] - marks["confirmed"]).total_seconds() == 0


def test_ec69_clocks_that_disagree_do_not_turn_the_timeline_round() -> None:
    room = running()
    late = room.suspicion(member(3)).model_copy(update={"at": room.now.at.replace(hour=23)})
    room.hear(late)
    room.answer(member(3), "refused")
    room.obey()
    marks = room.incidents[-1].milestones
    assert all(marks[before] <= marks[after] for before, after in pairwise(MILESTONES))


def test_steps_lost_is_what_the_members_lost_in_the_generation_that_healed() -> None:
    room = running()
    room.lose(member(3))
    room.obey(until="joined")
    room.hear(*(room.forms(i, steps_lost=n) for n, i in enumerate(room.record.incarnations)))
    room.agents["trainer-0.1"].step += 1
    room.hear(room.steps("trainer-0.1"))
    assert room.incidents[-1].steps_lost == 6


def test_ids_differ_between_incidents_and_between_leaders() -> None:
    room = running()
    for observation in (1, 2):
        room.suspect(member(3), observation=observation)
        room.answer(member(3), "alive")
    ids = {incident.id for incident in room.incidents}
    room.view = JobView(job=JOB, lease_revision=8)
    room.hear(Recorded(room.records[-1], 1))
    room.suspect(member(3))
    assert room.view.incident is not None
    assert len({*ids, room.view.incident.id}) == 3


def test_r6_an_incident_that_was_never_stored_is_rebuilt_from_the_record() -> None:
    room = running()
    room.lose(member(3))
    record, lost = room.record, room.view.incident
    assert lost is not None
    room.view = JobView(job=JOB, lease_revision=8)
    room.hear(Recorded(record, 5))
    room.obey()
    incident = room.incidents[-1]
    assert (incident.id, incident.outcome) == (record.incident, "resumed")
    assert incident.verdict == "shrink"
    assert incident.milestones.items() >= lost.milestones.items()
    assert tuple(incident.milestones) == MILESTONES


def overtaken_by_its_first_step() -> Courtroom:
    """A loss is healed, and the first step is told before anybody tells that the group formed."""
    room = running()
    room.lose(member(3))
    room.obey(until="joined")
    room.agents["trainer-0.1"].step += 1
    room.hear(room.steps("trainer-0.1"))
    assert room.phase() == "resumed"
    assert room.incidents == []
    return room


def test_r27_an_incident_stays_open_for_facts_that_its_first_step_overtook() -> None:
    room = overtaken_by_its_first_step()
    room.hear(*(room.forms(i, steps_lost=1) for i in room.record.incarnations))
    (incident,) = room.incidents
    assert incident.steps_lost == 1
    assert tuple(incident.milestones) == MILESTONES


def test_r27_an_incident_does_not_stay_open_for_a_fact_that_never_comes() -> None:
    room = overtaken_by_its_first_step()
    room.pass_time(LATE_FACTS_SECONDS + 1)
    assert [incident.outcome for incident in room.incidents] == ["resumed"]


def test_r6_an_open_incident_is_not_dismissed_before_a_detector_could_say_it_again() -> None:
    room = running()
    room.suspect(member(3))
    opened = room.view.incident
    record = room.record
    assert opened is not None
    room.kill("trainer-3.1")
    room.view = JobView(job=JOB, lease_revision=8)
    room.hear(Recorded(record, 5), Filed(opened, 3))
    room.pass_time(2.5)
    assert room.incidents == []
    room.suspect(member(3), reassertion=1)
    room.answer(member(3), "refused")
    room.obey()
    assert [(i.id, i.outcome) for i in room.incidents] == [(opened.id, "resumed")]


def test_r6_an_open_incident_that_nobody_stands_by_any_more_ends_dismissed() -> None:
    room = running()
    room.suspect(member(3))
    opened = room.view.incident
    assert opened is not None
    room.view = JobView(job=JOB, lease_revision=8)
    room.hear(Recorded(room.records[-1], 5), Filed(opened, 3))
    room.pass_time(6)
    assert [(i.id, i.outcome) for i in room.incidents] == [(opened.id, "dismissed")]


def test_r6_an_open_incident_that_was_stored_before_its_verdict_takes_it_over() -> None:
    room = running()
    room.suspect(member(3))
    opened = room.view.incident
    assert opened is not None
    room.kill("trainer-3.1")
    room.answer(member(3), "refused")
    record = room.record
    room.view = JobView(job=JOB, lease_revision=8)
    room.hear(Recorded(record, 5), Filed(opened, 3))
    room.obey()
    assert (room.incidents[-1].id, room.incidents[-1].verdict) == (opened.id, "shrink")


def test_r27_an_end_that_was_lost_with_a_disk_is_stored_again() -> None:
    room = running()
    room.suspect(member(3))
    opened = room.view.incident
    assert opened is not None
    room.answer(member(3), "alive")
    assert stray(room.view, opened, room.now) == room.incidents[-1]


def test_r27_an_incident_that_two_leaders_opened_twice_is_dismissed_once() -> None:
    room = running()
    room.suspect(member(3))
    opened = room.view.incident
    assert opened is not None
    assert stray(room.view, opened, room.now) is None
    other = stray(room.view, opened.model_copy(update={"id": "other"}), room.now)
    assert other is not None
    assert other.outcome == "dismissed"
