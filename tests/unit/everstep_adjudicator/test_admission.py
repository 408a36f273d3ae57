"""Forming, growing, holding, operators: R1, R5, R7, R19-R21, and the cases EC-41, EC-07."""

from everstep_adjudicator.actions import Decision, Quarantined, Recorded, Refuse, Rule
from everstep_adjudicator.case import Case
from everstep_adjudicator.model import JobView
from everstep_adjudicator.operators import obey
from everstep_adjudicator.policy import Policy
from everstep_contract.facts.job import JobObserved, PodObserved
from everstep_contract.identity import GangSpec
from everstep_contract.queries import ResumeJob, SuspendJob
from everstep_contract.verdicts import (
    AwaitReplacement,
    Form,
    Grow,
    RestartWorkers,
    Shrink,
    Suspend,
)
from support.courtroom import Courtroom, running
from support.gang import Agent, all_of, member
from support.messages import JOB


def command(room: Courtroom, kind: type[SuspendJob | ResumeJob], generation: int) -> Decision:
    case = Case.of(room.view, room.policy, room.now)
    return obey(case, kind(job=JOB, generation=generation, reason="maintenance"))


def obeyed(room: Courtroom, kind: type[SuspendJob | ResumeJob]) -> None:
    action = command(room, kind, room.view.generation).action
    assert isinstance(action, Rule)
    room.hear(Recorded(action.record, room.view.revision + 1))


def test_all_members_ready_form_at_once() -> None:
    room = Courtroom(8)
    room.start(*all_of(8))
    assert room.record.verdict == Form()
    assert room.names == [f"trainer-{i}.1" for i in range(8)]


def test_ranks_of_a_first_generation_follow_the_names_numbers() -> None:
    room = Courtroom(12, min_member=12)
    room.start(*(member(i) for i in reversed(range(12))))
    assert room.names == [f"trainer-{i}.1" for i in range(12)]


def test_enough_members_wait_a_while_for_the_rest() -> None:
    room = Courtroom(8, min_member=6)
    room.start(*all_of(6))
    assert room.verdicts == []
    room.pass_time(room.policy.form_settle_seconds)
    assert len(room.names) == 6


def test_fewer_than_the_floor_never_form() -> None:
    room = Courtroom(8, min_member=6)
    room.start(*all_of(5))
    room.pass_time(60)
    assert room.verdicts == []
    assert "1 more members" in room.waiting_for


def test_r19_a_member_that_is_not_warm_is_not_counted() -> None:
    room = Courtroom(2, min_member=2)
    room.start(*all_of(2))
    room = Courtroom(2, min_member=2)
    room.start(member(0))
    room.agents["trainer-1.1"] = Agent(member(1), phase="starting")
    room.pass_time(30)
    assert room.verdicts == []
    room.agents["trainer-1.1"].phase = "ready"
    room.pass_time(1)
    assert room.verdicts == ["form"]


def test_the_last_words_of_a_dead_candidate_are_no_member() -> None:
    room = Courtroom(2, min_member=2)
    room.start(member(0))
    room.agents["trainer-1.1"] = Agent(member(1))
    room.hear(room.report_of("trainer-1.1"))
    room.kill("trainer-1.1")
    room.pass_time(30)
    assert room.verdicts == []


def test_ec41_pods_without_an_agent_never_count() -> None:
    room = Courtroom(3, min_member=3)
    room.start(*all_of(2))
    room.hear(
        PodObserved(
            at=room.now.at,
            job=JOB,
            job_uid="uid-1",
            pod="logger-0",
            pod_uid="pod-logger",
            phase="Running",
            resource_version="1",
        )
    )
    room.pass_time(30)
    assert room.verdicts == []


def test_the_clusters_word_about_the_gang_outranks_the_members() -> None:
    room = Courtroom(4, min_member=4)
    gang = GangSpec(min_member=2, max_member=2, nproc_per_node=1)
    room.hear(
        JobObserved(
            at=room.now.at,
            job=JOB,
            job_uid="uid-1",
            gang=gang,
            annotated_generation=0,
            resource_version="1",
        )
    )
    room.start(*all_of(2))
    assert len(room.names) == 2


def test_r19_a_warm_newcomer_is_let_in_when_the_job_runs_quietly() -> None:
    room = running()
    room.lose(member(3))
    room.obey()
    room.start(member(3, life=2))
    room.pass_time(room.policy.grow_quiet_seconds + 0.1)
    assert room.record.verdict == Grow(added=("trainer-3.2",))
    assert room.names[-1] == "trainer-3.2"


def test_ec22_a_replacement_on_a_quarantined_node_is_not_let_in_until_that_ends() -> None:
    room = running()
    room.lose(member(3))
    room.obey()
    room.hear(Quarantined(frozenset({"node-3"})))
    room.start(member(3, life=2))
    room.pass_time(10 * room.policy.grow_quiet_seconds)
    assert room.verdicts == ["form", "shrink"]
    room.hear(Quarantined(frozenset()))
    assert room.record.verdict == Grow(added=("trainer-3.2",))


def test_a_member_keeps_its_seat_when_its_node_is_quarantined() -> None:
    room = running()
    room.hear(Quarantined(frozenset({"node-3"})))
    room.lose(member(2))
    assert "trainer-3.1" in room.names


def test_r19_growing_is_rate_limited() -> None:
    room = running(8, min_member=2, max_member=10)
    room.start(member(8))
    room.pass_time(room.policy.grow_quiet_seconds)
    room.obey()
    room.start(member(9))
    room.pass_time(room.policy.grow_interval_seconds - 0.5)
    assert room.verdicts == ["form", "grow"]
    room.pass_time(0.5)
    assert room.verdicts == ["form", "grow", "grow"]


def test_nobody_grows_a_job_while_somebody_is_suspected() -> None:
    room = running(8, min_member=2, max_member=9)
    room.hear(room.suspicion(member(1), "node_not_ready"))
    room.kill("trainer-1.1")
    room.start(member(8))
    room.pass_time(20)
    assert "grow" not in room.verdicts


def test_an_excluded_incarnation_is_let_in_again_only_after_being_ready_for_a_while() -> None:
    room = running()
    agent = room.agents["trainer-3.1"]
    room.lose(member(3))
    room.obey()
    room.agents["trainer-3.1"] = agent
    agent.phase = "ready"
    room.hear(room.recovery(member(3)))
    room.pass_time(room.policy.readmit_seconds - 1)
    assert room.verdicts == ["form", "shrink"]
    room.pass_time(2)
    assert room.record.verdict == Grow(added=("trainer-3.1",))


def test_newcomers_beyond_the_most_are_spares() -> None:
    room = running()
    room.start(member(8))
    room.pass_time(60)
    assert room.verdicts == ["form"]


def holding() -> Courtroom:
    room = running(6, min_member=6, policy=Policy(hold_seconds=120))
    room.lose(member(2))
    room.obey()
    assert room.record.state == "hold"
    return room


def test_r20_a_held_job_goes_on_as_soon_as_it_is_enough() -> None:
    room = holding()
    room.pass_time(100)
    room.start(member(2, life=2))
    assert room.record.verdict == Grow(added=("trainer-2.2",))
    assert (room.record.state, len(room.names)) == ("run", 6)


def test_a_job_that_holds_takes_an_excluded_member_back_at_once() -> None:
    room = running()
    cut_off = room.agents["trainer-2.1"]
    for index in range(3):
        room.lose(member(index))
        room.obey()
    assert room.record.state == "hold"
    room.agents["trainer-2.1"] = cut_off
    cut_off.phase = "ready"
    room.hear(room.recovery(member(2)))
    room.pass_time(2.0)
    assert room.record.verdict == Grow(added=("trainer-2.1",))


def test_a_held_member_that_dies_is_not_counted_when_the_job_goes_on() -> None:
    room = holding()
    room.lose(member(4))
    room.start(member(2, life=2))
    assert room.state() == "hold"
    room.start(member(4, life=2))
    assert room.state() == "run"
    assert room.names == [*(f"trainer-{i}.1" for i in (0, 1, 3, 5)), "trainer-2.2", "trainer-4.2"]


def test_a_held_member_that_dies_is_named_by_no_order_any_more() -> None:
    room = holding()
    room.pass_time(30)
    room.lose(member(4))
    room.pass_time(1)
    assert room.names == [f"trainer-{i}.1" for i in (0, 1, 3, 5)]
    assert isinstance(room.record.verdict, AwaitReplacement)
    assert room.record.verdict.wait_seconds <= 120 - 30


def test_losses_while_holding_do_not_renew_the_patience() -> None:
    room = holding()
    room.pass_time(60)
    room.lose(member(4))
    room.pass_time(61)
    assert room.record.verdict == Suspend(by="deadline")


def test_ec07_a_hold_ends_suspended_and_says_why() -> None:
    room = holding()
    room.pass_time(room.policy.hold_seconds)
    assert room.record.verdict == Suspend(by="deadline")
    assert room.record.state == "hold"
    assert "no replacement within" in room.record.reason


def test_a_job_suspended_for_lack_of_members_resumes_by_itself() -> None:
    room = holding()
    room.pass_time(room.policy.hold_seconds)
    room.obey()
    room.start(member(2, life=2))
    assert room.verdicts[-2:] == ["suspend", "form"]


def test_r7_an_operators_suspension_is_a_new_generation_and_holds_by_itself() -> None:
    room = running(policy=Policy(hold_seconds=120))
    obeyed(room, SuspendJob)
    assert room.record.generation == 2
    assert (room.record.verdict, room.record.state) == (Suspend(by="operator"), "hold")
    room.obey()
    room.pass_time(room.policy.hold_seconds * 2)
    assert room.view.generation == 2


def test_r7_resuming_is_a_new_generation_with_everybody_who_is_there() -> None:
    room = running()
    obeyed(room, SuspendJob)
    room.obey()
    room.pass_time(2)
    obeyed(room, ResumeJob)
    assert (room.record.generation, room.record.state) == (3, "run")
    assert len(room.names) == 8


def test_suspending_and_resuming_spend_nothing_of_the_restart_budget() -> None:
    room = running()
    for _ in range(room.policy.restart_budget):
        obeyed(room, SuspendJob)
        room.obey()
        room.pass_time(1)
        obeyed(room, ResumeJob)
    room.lose(member(3))
    room.pass_time(room.policy.supersede_limit_seconds)
    assert room.record.verdict == Shrink(lost=("trainer-3.1",))


def test_resuming_with_too_few_waits_for_the_rest() -> None:
    room = running(6, min_member=6)
    obeyed(room, SuspendJob)
    room.obey()
    room.lose(member(1))
    obeyed(room, ResumeJob)
    assert isinstance(room.record.verdict, AwaitReplacement)
    room.obey()
    room.start(member(1, life=2))
    assert room.record.state == "run"


def test_a_command_for_an_older_generation_is_refused_with_the_reason() -> None:
    decision = command(running(), SuspendJob, 0)
    assert decision == Decision(Refuse(), "the job is at generation 1 by now")


def test_what_is_not_suspended_cannot_be_resumed() -> None:
    assert command(running(), ResumeJob, 1).action == Refuse()


def forget(room: Courtroom, *, record: bool) -> None:
    """A new adjudicator, and a key-value store that lost its newest writes."""
    old = room.records[0]
    room.view = JobView(job=JOB, lease_revision=9)
    room.hear(Recorded(old if record else None, 1 if record else 0))


def test_r5_a_record_older_than_what_agents_report_heals_with_a_newer_generation() -> None:
    room = running()
    for index in (6, 7):
        room.lose(member(index))
        room.obey()
    forget(room, record=True)
    assert room.record.generation == 1
    room.pass_time(4.1)
    for who in (member(6), member(7)):
        room.answer(who, "refused")
    assert room.record.generation == 4
    assert room.record.verdict == Shrink(lost=("trainer-6.1", "trainer-7.1"))


def test_r5_a_record_that_lost_a_generation_of_the_same_members_heals_too() -> None:
    room = running()
    room.hear(room.exit_of(member(3)))
    room.obey()
    forget(room, record=True)
    room.pass_time(5)
    assert room.record.generation == 3
    assert room.record.verdict == RestartWorkers(failed=())


def test_r5_a_lost_record_heals_with_a_newer_generation_of_all_who_are_heard() -> None:
    room = running()
    room.lose(member(7))
    room.obey()
    forget(room, record=False)
    room.pass_time(5)
    assert room.record.generation == 3
    assert room.names == [f"trainer-{i}.1" for i in range(7)]


def test_r5_another_verdict_under_the_same_number_is_overruled_by_a_newer_one() -> None:
    room = running()
    for agent in room.agents.values():
        agent.verdict_id = "of-another-leader"
    room.pass_time(1)
    assert room.record.generation == 2


def test_a_job_made_anew_under_the_same_name_continues_the_numbers() -> None:
    room = running(2, min_member=2)
    room.kill("trainer-0.1", "trainer-1.1")
    deleted = JobObserved(
        at=room.now.at,
        job=JOB,
        job_uid="uid-1",
        gang=room.gang,
        annotated_generation=1,
        deleted=True,
        resource_version="5",
    )
    room.hear(deleted)
    room.start(member(0, 5, "uid-2"), member(1, 5, "uid-2"))
    assert (room.record.job_uid, room.record.generation) == ("uid-2", 2)
    assert room.record.resumed_generation == 1


def test_a_second_job_of_the_same_name_waits_while_the_first_one_lives() -> None:
    room = running(2, min_member=2)
    room.start(member(0, 5, "uid-2"), member(1, 5, "uid-2"))
    room.pass_time(60)
    assert room.record.job_uid == "uid-1"
    assert room.verdicts == ["form"]
