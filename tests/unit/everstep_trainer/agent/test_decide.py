"""The agent's core, rule by rule of the protocol."""

import pytest
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberFormed, MemberJoined, MemberLeft, OrderRefused
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.identity import Endpoint
from everstep_trainer.agent.model import (
    Exit,
    Gossip,
    KillWorker,
    Limits,
    PeersReached,
    Reach,
    StartStore,
    StartWorker,
    StoreDied,
    StoreUp,
    Terminate,
    TerminateWorker,
    Warn,
    WorkerDied,
    WorkerSaid,
    ZygoteLost,
)
from everstep_trainer.link import Assignment, Failed, Finish, Finished, Hello, Left, Park, Parked
from everstep_trainer.page import PageView
from support.agent_core import CRASHED, FINISHED, KILLED, Core, assignments, make_order, page, seat
from support.messages import DURATIONS, member


def test_starts_its_store_and_its_workers_before_any_order() -> None:
    core = Core(nproc=2)
    core.tick()
    assert [(s.local_rank, s.life) for s in core.done(StartWorker)] == [(0, 1), (1, 1)]
    assert len(core.done(StartStore)) == 1


def test_r1_obeys_only_orders_that_list_its_own_incarnation() -> None:
    core = Core(index=0).warm()
    namesake = seat(0).member.model_copy(update={"incarnation": "worker-0.2"})
    order = make_order(1)
    seats = (seat(0).model_copy(update={"member": namesake}), seat(1))
    core.order(order.model_copy(update={"seats": seats, "store_host": "worker-0.2"}))
    assert core.told() == [Park(generation=1)]


def test_r1_an_order_of_a_job_made_anew_under_the_same_name_is_nothing_to_it() -> None:
    core = Core().warm()
    core.order(make_order(9).model_copy(update={"job_uid": "uid-of-another-life"}))
    assert core.state.generation == 0
    assert core.told() == []


def test_r7_an_order_becomes_every_workers_whole_assignment() -> None:
    core = Core(index=1, nproc=2).warm()
    core.order(make_order(3, (0, 1, 2), nproc=2))
    (sent,) = assignments(core, rank=1)
    assert sent == Assignment(
        generation=3,
        verdict_id="v3",
        rank=3,
        world_size=6,
        local_rank=1,
        local_world_size=2,
        member_index=1,
        members=("worker-0.1",) * 2 + ("worker-1.1",) * 2 + ("worker-2.1",) * 2,
        store=seat(0).store,
        store_prefix="g3-v3",
        stores=(seat(0).store, seat(1).store, seat(2).store),
        form_seconds=DURATIONS.form_seconds,
        construct_seconds=DURATIONS.construct_seconds,
    )


def test_r9_an_order_that_is_not_newer_is_ignored() -> None:
    core = Core().warm().run(make_order(2))
    before = core.state
    assert core.order(make_order(1, (1,))) == ()
    assert core.order(make_order(2)) == ()
    assert core.state.order == before.order


def test_r9_another_verdict_of_the_same_generation_is_refused_and_reported_once() -> None:
    core = Core().warm().run(make_order(2))
    for _ in range(2):
        core.order(make_order(2, (1,), verdict_id="other"))
    (refused,) = core.published(OrderRefused)
    assert (refused.verdict_id, refused.obeyed_verdict_id) == ("other", "v2")
    assert core.state.verdict_id == "v2"


def test_r9_a_member_that_is_not_listed_leaves_and_waits_as_a_candidate() -> None:
    core = Core(index=0).warm().run(make_order(1))
    core.order(make_order(2, (1, 2)))
    assert core.told()[-1] == Park(generation=2)
    core.say(Parked(generation=2, version=1))
    core.hear(PeersReached("v2"))
    assert core.published(MemberJoined)[-1].generation == 0
    assert core.published(MemberJoined)[-1].report.phase == "ready"


def test_r9_a_newer_order_is_handed_to_the_peers_of_the_new_and_of_the_old_generation() -> None:
    core = Core(index=0).warm().run(make_order(1, (0, 1, 2)))
    (gossip,) = [e for e in core.order(make_order(2, (0, 2))) if isinstance(e, Gossip)]
    assert seat(1).peer in gossip.to
    assert seat(2).peer in gossip.to
    assert seat(0).peer not in gossip.to


def test_r9_gossip_reaches_every_member_though_each_tells_only_a_few() -> None:
    order = make_order(1, tuple(range(200)))
    told = {0}
    for _ in range(8):
        for index in sorted(told):
            (gossip,) = [e for e in Core(index=index).order(order) if isinstance(e, Gossip)]
            assert len(gossip.to) <= 8
            told |= {int(peer.host.rpartition(".")[2]) - 1 for peer in gossip.to}
    assert len(told) == 200


def test_r9_an_agent_without_the_bus_keeps_asking_its_peers_for_orders() -> None:
    core = Core().warm().run(make_order(1))
    core.bus_up = False
    rounds = [e for e in core.pass_seconds(3) if isinstance(e, Gossip)]
    assert len(rounds) == 3


def test_r13_a_failed_collective_counts_only_in_the_newest_generation() -> None:
    core = Core().warm().run(make_order(1))
    failed = Failed(
        generation=1, verdict_id="v1", while_forming=False, peer_ranks=(1,), detail="reset"
    )
    core.say(failed)
    core.order(make_order(2))
    core.say(failed)
    (told,) = core.published(CollectiveFailed)
    assert told.peer == "worker-1.1"


def test_r16_it_joins_only_when_every_worker_has_left() -> None:
    core = Core(nproc=2).warm()
    core.order(make_order(1, nproc=2))
    joined = len(core.published(MemberJoined))
    core.say(Left(generation=1, left_generation=0, version=-1), rank=0)
    assert len(core.published(MemberJoined)) == joined
    core.say(Left(generation=1, left_generation=0, version=-1), rank=1)
    assert core.published(MemberJoined)[-1].generation == 1
    assert core.last_report.report.phase == "joined"


def test_r16_a_newer_order_ends_forming_anywhere() -> None:
    core = Core().warm()
    core.order(make_order(1))
    core.leave()
    core.order(make_order(2))
    assert [sent.generation for sent in assignments(core)] == [1, 2]
    core.say(core.formed_message().model_copy(update={"generation": 1, "verdict_id": "v1"}))
    assert core.published(MemberFormed) == []


def test_r16_formed_is_told_once_every_worker_is_in_the_group() -> None:
    core = Core(nproc=2).warm()
    core.order(make_order(1, nproc=2))
    core.pass_seconds(0.5)
    core.leave()
    core.say(core.formed_message(agreed_step=7, steps_lost=0), rank=0)
    assert core.published(MemberFormed) == []
    core.say(core.formed_message(agreed_step=7, steps_lost=2), rank=1)
    (formed,) = core.published(MemberFormed)
    assert (formed.agreed_step, formed.steps_lost) == (7, 2)
    assert formed.formed_seconds == pytest.approx(0.5)


def test_r16_a_worker_that_died_in_a_group_never_joins_the_same_generation_again() -> None:
    core = Core().warm().run(make_order(1))
    core.die()
    core.born()
    core.say(Parked(generation=0, version=-1))
    assert core.told()[-1] == Park(generation=1)
    core.order(make_order(2))
    assert assignments(core)[-1].generation == 2


def test_r16_a_worker_that_died_on_its_way_out_joins_the_next_generation_at_once() -> None:
    core = Core().warm().run(make_order(1))
    core.order(make_order(2))
    core.die()
    core.born()
    assert assignments(core)[-1].generation == 2
    assert core.published(WorkerExited)[-1].generation == 1


def test_ec12_a_worker_that_does_not_leave_in_time_is_killed_and_started_anew() -> None:
    core = Core(limits=Limits(leave_seconds=2)).warm().run(make_order(1))
    core.order(make_order(2))
    core.pass_seconds(1.75)
    assert core.done(KillWorker) == []
    core.pass_seconds(0.5)
    (kill,) = core.done(KillWorker)
    assert "within 2 s" in kill.reason
    core.die()
    assert core.published(WorkerExited)[-1].detail == kill.reason
    assert core.done(StartWorker)[-1].life == 2
    assert core.state.restarts == 0


@pytest.mark.parametrize(
    ("seen", "patience"),
    [
        (page(5, step_seconds=(0.1, 0.1)), 2),
        (page(5, step_seconds=(4.0, 1.0)), 12),
        (page(5, phase="evaluate"), 60),
        (page(0, step_seconds=()), 60),
    ],
)
def test_ec12_a_worker_whose_step_or_phase_is_long_has_longer(
    seen: PageView, patience: float
) -> None:
    core = Core(limits=Limits(leave_seconds=2, phase_seconds=60)).warm().run(make_order(1))
    core.pages = [seen]
    core.order(make_order(2))
    core.pass_seconds(patience - 0.25)
    assert core.done(KillWorker) == []
    core.pass_seconds(0.5)
    assert len(core.done(KillWorker)) == 1


def test_ec12_a_new_worker_that_parks_late_has_its_whole_budget() -> None:
    core = Core(limits=Limits(leave_seconds=2)).warm().run(make_order(1))
    core.order(make_order(2))
    core.die()
    core.born()
    core.pass_seconds(30)
    core.say(Parked(generation=0, version=-1))
    core.tick()
    assert core.done(KillWorker) == []


def test_r18_who_is_left_out_parks_and_can_be_taken_in_again() -> None:
    core = Core(index=0).warm()
    core.order(make_order(1))
    core.order(make_order(2, (1, 2)))
    core.say(Left(generation=1, left_generation=0, version=-1))
    core.say(Parked(generation=2, version=-1))
    core.order(make_order(3, (0, 1, 2)))
    assert assignments(core)[-1].generation == 3


def test_r19_a_candidate_is_ready_only_when_warm() -> None:
    core = Core()
    core.tick()
    core.born()
    core.say(Parked(generation=0, version=-1))
    assert core.published(MemberJoined) == []
    core.hear(StoreUp(Endpoint(host="10.0.0.1", port=1)))
    (joined,) = core.published(MemberJoined)
    assert (joined.generation, joined.report.phase) == (0, "ready")


def test_r19_a_candidate_of_a_running_job_first_reaches_its_peers_and_the_store() -> None:
    core = Core(index=3).warm()
    told = len(core.published(MemberJoined))
    core.order(make_order(5, (0, 1)))
    core.say(Parked(generation=5, version=-1))
    (reach,) = core.done(Reach)
    assert seat(0).store in reach.endpoints
    assert len(core.published(MemberJoined)) == told
    core.hear(PeersReached("v5"))
    assert len(core.published(MemberJoined)) == told + 1


def test_r20_hold_parks_every_worker_and_keeps_its_process() -> None:
    core = Core(nproc=2).warm().run(make_order(1, nproc=2))
    core.order(make_order(2, state="hold", nproc=2))
    for rank in (0, 1):
        assert core.told(rank)[-1] == Park(generation=2)
        core.say(Parked(generation=2, version=1), rank)
    core.pass_seconds(30)
    assert core.done(KillWorker) == []
    assert core.last_report.report.phase == "holding"
    assert core.last_report.report.version == 1


def test_r21_a_generation_counts_as_left_only_when_no_worker_can_step_in_it() -> None:
    core = Core(nproc=2).warm().run(make_order(1, nproc=2))
    core.order(make_order(2, nproc=2))
    core.say(Left(generation=2, left_generation=1, version=1), rank=0)
    assert core.last_report.report.left_generation == 0
    core.die(rank=1)
    assert core.last_report.report.left_generation == 1


def test_r21_an_assignment_on_its_way_to_a_worker_keeps_its_generation_unleft() -> None:
    core = Core().warm()
    core.order(make_order(1))
    core.order(make_order(2, state="hold"))
    assert core.last_report.report.left_generation == 0
    core.say(Left(generation=1, left_generation=0, version=-1))
    core.say(Parked(generation=2, version=-1))
    assert core.last_report.report.left_generation == 1


def test_r22_the_report_carries_the_version_that_every_worker_holds() -> None:
    core = Core(nproc=2).warm().run(make_order(1, nproc=2))
    core.pages = [page(8), page(7)]
    core.pass_seconds(1)
    report = core.last_report.report
    assert (report.version, report.step, report.step_begun) == (7, 7, 9)
    core.die(rank=1)
    assert core.last_report.report.version == -1


def test_r24_an_agent_with_neither_bus_nor_steps_ends_its_workers() -> None:
    core = Core().warm().run(make_order(1))
    core.bus_up = False
    core.pass_seconds(DURATIONS.self_fence_seconds)
    assert core.done(KillWorker) == []
    core.pass_seconds(0.5)
    assert len(core.done(KillWorker)) == 1
    assert core.published(MemberLeft)[-1].reason == "fenced"
    core.die()
    assert core.done(Exit)[-1].code == 75


def test_r24_steps_without_the_bus_never_fence() -> None:
    core = Core().warm().run(make_order(1))
    core.bus_up = False
    for step in range(2, 12):
        core.step_to(step)
        core.pass_seconds(DURATIONS.self_fence_seconds / 2)
    assert core.done(KillWorker) == []


def test_r24_an_agent_that_was_frozen_for_longer_than_its_patience_does_not_go_on() -> None:
    core = Core().warm().run(make_order(1))
    core.seconds += DURATIONS.self_fence_seconds + 1
    core.tick()
    assert core.published(MemberLeft)[-1].reason == "fenced"


def test_r27_the_leave_budget_counts_from_receipt() -> None:
    core = Core(limits=Limits(leave_seconds=2)).warm().run(make_order(1))
    core.pass_seconds(100)
    core.order(make_order(2))
    core.pass_seconds(1.75)
    assert core.done(KillWorker) == []


def test_the_member_with_rank_0_tells_the_first_step_at_once_and_then_now_and_then() -> None:
    core = Core(index=0).warm().run(make_order(1))
    for step in range(2, 42):
        core.step_to(step)
        core.pass_seconds(0.25)
    told = core.published(StepAdvanced)
    assert [(event.step, event.first) for event in told[:2]] == [(1, True), (9, False)]
    assert len(told) == 6


def test_another_member_tells_no_steps() -> None:
    core = Core(index=1).warm().run(make_order(1))
    core.step_to(50)
    core.pass_seconds(5)
    assert core.published(StepAdvanced) == []


def test_reports_come_at_once_on_a_change_and_else_at_most_twice_a_second() -> None:
    core = Core().warm().run(make_order(1))
    quiet = [e for e in core.pass_seconds(10) if type(e).__name__ == "Report"]
    assert len(quiet) <= 20
    sequences = [report.report.sequence for report in core.done(type(core.last_report))]
    assert sequences == sorted(set(sequences))


def test_a_script_that_does_not_join_is_warned_of_once() -> None:
    core = Core(nproc=2, limits=Limits(join_seconds=10))
    core.tick()
    core.say(Hello(local_rank=0, pid=7), rank=0)
    core.pass_seconds(30)
    (warning,) = core.done(Warn)
    assert warning.what == "script_has_not_joined"
    assert "worker 1" in warning.detail


def test_a_worker_that_died_is_started_anew_and_its_death_told() -> None:
    core = Core().warm().run(make_order(1))
    core.die(status=KILLED)
    (exited,) = core.published(WorkerExited)
    assert (exited.generation, exited.signal, exited.classified) == (1, 9, "killed")
    assert core.done(StartWorker)[-1].life == 2


def test_a_worker_may_speak_before_its_birth_is_told() -> None:
    core = Core()
    core.tick()
    core.hear(StoreUp(seat(0).store))
    core.say(Parked(generation=0, version=-1))
    core.born()
    assert core.last_report.report.workers[0].pid > 0
    assert core.last_report.report.phase == "ready"


def test_ec33_a_dead_lifes_last_words_change_nothing() -> None:
    core = Core().warm().run(make_order(1))
    core.die()
    core.hear(WorkerSaid(0, 1, Parked(generation=1, version=9)))
    core.hear(WorkerDied(0, 1, KILLED))
    assert core.state.workers[0].version == -1
    assert len(core.published(WorkerExited)) == 1


def test_a_worker_that_dies_before_it_parks_is_started_ever_more_slowly() -> None:
    core = Core(limits=Limits(max_restarts=8))
    core.tick()
    waits = []
    for _ in range(3):
        core.born()
        core.die(status=CRASHED)
        begun, lives = core.seconds, len(core.done(StartWorker))
        while len(core.done(StartWorker)) == lives:
            core.pass_seconds(0.25)
        waits.append(core.seconds - begun)
    assert waits == sorted(set(waits))


def test_deaths_in_a_row_without_a_step_end_the_member() -> None:
    core = Core(limits=Limits(max_restarts=2)).warm().run(make_order(1))
    for n in (2, 3, 4):
        core.die(status=CRASHED)
        core.order(make_order(n))
        core.pass_seconds(1)
        core.born()
    assert core.published(MemberLeft)[-1].reason == "failed"
    core.die()
    assert core.done(Exit)[-1].code == 1


def test_a_step_forgives_the_deaths_before_it() -> None:
    core = Core(limits=Limits(max_restarts=1)).warm()
    for n in range(1, 6):
        core.run(make_order(n), step=n)
        core.die(status=CRASHED)
        core.born()
    assert core.published(MemberLeft) == []


def test_an_order_that_restarts_a_member_kills_workers_that_live_since_before() -> None:
    core = Core().warm().run(make_order(1))
    core.order(make_order(2, restart=(0,)))
    assert len(core.done(KillWorker)) == 1
    core.die()
    core.born()
    assert assignments(core)[-1].generation == 2


def test_an_order_that_restarts_a_member_spares_workers_that_have_started_anew() -> None:
    core = Core().warm().run(make_order(1))
    core.die()
    core.born()
    core.order(make_order(2, restart=(0,)))
    assert core.done(KillWorker) == []


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


def test_a_lost_zygote_fails_the_member() -> None:
    core = Core().warm().run(make_order(1))
    core.hear(ZygoteLost("gone"))
    core.die()
    assert core.done(Exit)[-1].code == 1


def test_a_dead_store_host_is_started_anew_and_told() -> None:
    core = Core().warm()
    core.hear(StoreDied())
    assert len(core.done(StartStore)) == 2
    core.hear(StoreUp(Endpoint(host="10.0.0.1", port=9)))
    assert core.last_report.report.store.port == 9


def test_a_store_host_that_keeps_dying_fails_the_member() -> None:
    core = Core(limits=Limits(max_restarts=1)).warm()
    for _ in range(2):
        core.hear(StoreDied())
    assert core.published(MemberLeft)[-1].reason == "failed"


def test_ec41_the_order_wins_over_the_schedulers_world_size_and_says_so() -> None:
    core = Core(scheduler_world_size=5).warm()
    effects = core.order(make_order(1, (0, 1, 2, 3)))
    assert Warn("env_world_mismatch", "5 != 4") in effects
    assert assignments(core)[-1].world_size == 4


def test_an_order_that_names_no_store_is_not_formed_and_is_reported() -> None:
    core = Core().warm()
    effects = core.order(make_order(1).model_copy(update={"store_host": "nobody"}))
    assert [e.what for e in effects if isinstance(e, Warn)] == ["order_not_possible"]
    assert core.told() == [Park(generation=1)]


def test_the_restart_rung_starts_workers_by_the_order_and_anew_each_generation() -> None:
    core = Core(rung="restart")
    core.tick()
    assert core.done(StartWorker) == []
    core.hear(StoreUp(seat(0).store))
    assert core.published(MemberJoined)[-1].generation == 0
    core.order(make_order(1))
    (start,) = core.done(StartWorker)
    assert start.assignment is not None
    assert start.assignment.generation == 1
    core.born()
    assert core.published(MemberJoined)[-1].generation == 1
    core.pass_seconds(2)
    assert len(core.published(MemberFormed)) == 1
    assert core.published(StepAdvanced)[-1].first
    core.order(make_order(2))
    assert len(core.done(KillWorker)) == 1
    core.die()
    assert core.done(StartWorker)[-1].assignment.generation == 2  # type: ignore[union-attr]


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
