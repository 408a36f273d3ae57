"""An agent that ends says so, gives its workers their grace, and exits with a code that tells."""

from everstep_contract.base import MAX_TEXT
from everstep_contract.facts.member import MemberLeft
from everstep_trainer.agent.effects import Exit, KillWorker, TerminateWorker
from everstep_trainer.agent.inputs import StoreUp, Terminate, ZygoteLost
from everstep_trainer.agent.model import Limits
from everstep_trainer.link import Finish, Finished
from support.agent_core import CRASHED, FINISHED, Core, make_order, seat
from support.messages import member


def test_ec20_a_terminated_agent_says_so_lets_its_workers_end_and_exits() -> None:
    core = Core().warm().run(make_order(1))
    core.hear(Terminate("SIGTERM"))
    assert core.published(MemberLeft)[-1].reason == "terminated"
    assert isinstance(core.told()[-1], Finish)
    assert core.done(Exit) == []
    core.die(status=FINISHED)
    assert core.done(Exit)[-1].code == 143


def test_a_worker_that_does_not_end_in_its_grace_is_killed() -> None:
    core = Core(limits=Limits(grace_seconds=3)).warm().run(make_order(1))
    core.hear(Terminate("SIGTERM"))
    core.pass_seconds(2.75)
    assert core.done(KillWorker) == []
    core.pass_seconds(0.5)
    assert len(core.done(KillWorker)) == 1


def test_a_second_signal_leaves_no_grace() -> None:
    core = Core().warm().run(make_order(1))
    core.hear(Terminate("SIGTERM"))
    core.hear(Terminate("SIGTERM"))
    assert len(core.done(KillWorker)) == 1
    assert len(core.published(MemberLeft)) == 1


def test_a_member_whose_workers_have_all_finished_ends_well() -> None:
    core = Core(nproc=2).warm().run(make_order(1, nproc=2))
    for rank in (0, 1):
        core.say(Finished(step=9), rank)
        core.die(rank, FINISHED)
    assert core.published(MemberLeft)[-1].reason == "finished"
    assert core.done(Exit)[-1].code == 0


def test_a_worker_that_fails_after_another_has_finished_fails_the_member() -> None:
    core = Core(nproc=2).warm().run(make_order(1, nproc=2))
    core.die(0, FINISHED)
    core.die(1, CRASHED)
    assert core.published(MemberLeft)[-1].reason == "failed"
    assert core.done(Exit)[-1].code == 1


def test_a_stopped_job_ends_as_a_failure_after_its_workers_have_ended() -> None:
    core = Core().warm().run(make_order(1))
    core.order(make_order(2, (), state="stop"))
    assert isinstance(core.told()[-1], Finish)
    assert core.last_report.report.phase == "stopped"
    core.die(status=FINISHED)
    assert core.done(Exit)[-1].code == 1


def test_ec74_a_member_of_a_job_that_was_given_up_says_why_as_it_ends() -> None:
    core = Core().warm().run(make_order(1))
    core.order(make_order(2, (), state="stop", reason="3 incidents without a step beyond 120"))
    core.die(status=FINISHED)
    left, leave = core.published(MemberLeft)[-1], core.done(Exit)[-1]
    assert left.detail == leave.reason
    assert leave.reason.endswith("stops the job: 3 incidents without a step beyond 120")
    assert leave.code == 1


def test_the_longest_reason_fits_into_what_a_member_says_as_it_ends() -> None:
    core = Core().warm().run(make_order(1))
    core.order(make_order(2, (), state="stop", reason="x" * MAX_TEXT))
    assert len(core.published(MemberLeft)[-1].detail) == MAX_TEXT


def test_a_lost_zygote_fails_the_member() -> None:
    core = Core().warm().run(make_order(1))
    core.hear(ZygoteLost("gone"))
    core.die()
    assert core.done(Exit)[-1].code == 1


def test_the_restart_rung_ends_its_workers_by_a_signal() -> None:
    core = Core(rung="restart")
    core.tick()
    core.hear(StoreUp(seat(0).store))
    core.order(make_order(1))
    core.born()
    core.hear(Terminate("SIGTERM"))
    assert len(core.done(TerminateWorker)) == 1
    assert core.done(KillWorker) == []


def test_nothing_is_done_after_the_end() -> None:
    core = Core().warm()
    core.hear(Terminate("SIGTERM"))
    core.die(status=FINISHED)
    assert core.pass_seconds(10) == ()
    assert member(0) == core.state.me.member
