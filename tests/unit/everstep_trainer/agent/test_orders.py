"""Which orders an agent obeys, what each becomes, and how long a worker has to follow."""

import pytest
from everstep_contract.facts.member import MemberFormed, MemberJoined, OrderRefused
from everstep_contract.facts.worker import WorkerExited
from everstep_trainer.agent.effects import Gossip, KillWorker, Reach, StartWorker, Warn
from everstep_trainer.agent.inputs import PeersReached
from everstep_trainer.agent.model import Limits
from everstep_trainer.link import Assignment, Left, Park, Parked
from everstep_trainer.page import PageView
from support.agent_core import Core, assignments, make_order, page, seat
from support.messages import DURATIONS


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
        job=core.state.me.job,
        job_uid=core.state.me.member.job_uid,
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


def test_r16_a_newer_order_ends_forming_anywhere() -> None:
    core = Core().warm()
    core.order(make_order(1))
    core.leave()
    core.order(make_order(2))
    assert [sent.generation for sent in assignments(core)] == [1, 2]
    core.say(core.formed_message().model_copy(update={"generation": 1, "verdict_id": "v1"}))
    assert core.published(MemberFormed) == []


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


def test_r27_the_leave_budget_counts_from_receipt() -> None:
    core = Core(limits=Limits(leave_seconds=2)).warm().run(make_order(1))
    core.pass_seconds(100)
    core.order(make_order(2))
    core.pass_seconds(1.75)
    assert core.done(KillWorker) == []


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
