"""Workers and store hosts that start, die, and start anew."""

from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberFormed, MemberJoined, MemberLeft
from everstep_contract.facts.worker import WorkerExited
from everstep_contract.identity import Endpoint
from everstep_trainer.agent.effects import Exit, KillWorker, StartStore, StartWorker
from everstep_trainer.agent.inputs import StoreDied, StoreUp
from everstep_trainer.agent.model import Limits
from everstep_trainer.link import Park, Parked
from support.agent_core import CRASHED, KILLED, Core, assignments, make_order, seat


def test_starts_its_store_and_its_workers_before_any_order() -> None:
    core = Core(nproc=2)
    core.tick()
    assert [(s.local_rank, s.life) for s in core.done(StartWorker)] == [(0, 1), (1, 1)]
    assert len(core.done(StartStore)) == 1


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


def test_a_worker_that_died_is_started_anew_and_its_death_told() -> None:
    core = Core().warm().run(make_order(1))
    core.die(status=KILLED)
    (exited,) = core.published(WorkerExited)
    assert (exited.generation, exited.signal, exited.classified) == (1, 9, "killed")
    assert core.done(StartWorker)[-1].life == 2


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
