"""What ends a job's patience: failures without progress, never what was planned (EC-54)."""

from everstep_adjudicator.policy import Policy
from everstep_contract.identity import Member
from everstep_contract.verdicts import GiveUp
from support.courtroom import Courtroom, heal, running
from support.gang import member


def test_three_incidents_without_a_newer_step_are_given_up() -> None:
    room = running()
    for _ in range(4):
        room.hear(room.exit_of(member(4), "application"))
        room.obey(until="formed")
        room.hear(room.steps("trainer-0.1"))
        room.pass_time(3)
    assert isinstance(room.record.verdict, GiveUp)
    assert room.record.phase == "ended"
    assert room.incidents[-1].outcome == "given_up"
    assert "3 incidents without a step beyond" in room.record.reason


def test_a_newer_step_between_incidents_renews_the_patience() -> None:
    room = running()
    for _ in range(6):
        room.hear(room.exit_of(member(4), "application"))
        heal(room)
    assert set(room.verdicts[1:]) == {"restart_workers"}


def test_drains_do_not_spend_the_failure_budget() -> None:
    room = running(8, min_member=2)
    for index in range(4):
        room.kill(f"trainer-{index}.1")
        room.hear(room.departure(member(index)))
        room.obey(until="formed")
        room.hear(room.steps("trainer-7.1"))
        room.pass_time(3)
    assert room.verdicts == ["form", *["shrink"] * 4]
    assert room.record.failures_without_progress == 0


def preempt(room: Courtroom, who: Member) -> None:
    """Its pod is asked to go, and its processes end without a word."""
    room.hear(room.pod_seen(who, cause="preempted", planned=True))
    room.lose(who)


def test_ec54_ten_preemptions_at_the_same_step_do_not_give_the_job_up() -> None:
    room = running(12, min_member=2)
    for index in range(10):
        preempt(room, member(index))
        room.obey(until="formed")
        room.hear(room.steps("trainer-11.1"))
        room.pass_time(3)
    assert set(room.verdicts[1:]) == {"shrink"}
    assert room.record.failures_without_progress == 0


def test_ec54_a_failure_after_many_preemptions_has_the_whole_budget() -> None:
    room = running(12, min_member=2, policy=Policy(restart_budget=3))
    for index in range(6):
        preempt(room, member(index))
        room.obey(until="formed")
        room.pass_time(3)
    room.lose(member(6))
    assert room.verdicts[-1] == "shrink"


def test_ec54_losses_that_nobody_planned_do_give_the_job_up() -> None:
    room = running(12, min_member=2)
    for index in range(4):
        room.hear(room.pod_seen(member(index), cause="pressure", planned=False))
        room.lose(member(index))
        room.obey(until="formed")
        room.hear(room.steps("trainer-11.1"))
        room.pass_time(3)
    assert room.verdicts[-1] == "give_up"


def test_ec54_a_preemption_is_told_with_the_loss_as_planned() -> None:
    room = running()
    preempt(room, member(3))
    assert [item.kind for item in room.record.evidence][-1] == "planned"
    assert "planned" in {item.kind for item in room.record.excluded[0].evidence}


def test_ec54_an_agent_that_failed_by_itself_spends_the_budget() -> None:
    room = running(12, min_member=2)
    for index in range(4):
        room.kill(f"trainer-{index}.1")
        room.hear(room.departure(member(index), "failed"))
        room.obey(until="formed")
        room.hear(room.steps("trainer-11.1"))
        room.pass_time(3)
    assert room.verdicts[-1] == "give_up"


def test_ec54_a_pod_that_is_asked_to_go_is_no_loss_before_it_is_gone() -> None:
    room = running()
    room.hear(room.pod_seen(member(3), cause="evicted", planned=True))
    room.pass_time(5)
    assert room.verdicts == ["form"]
    assert room.view.incident is None
