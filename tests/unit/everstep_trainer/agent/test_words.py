"""What an agent makes of its workers' words and pages, and of a bus it cannot hear."""

from everstep_contract.facts.member import MemberLeft
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_trainer.agent.effects import Exit, Gossip, KillWorker, Warn
from everstep_trainer.agent.inputs import StoreUp, WorkerDied, WorkerSaid
from everstep_trainer.agent.model import Limits
from everstep_trainer.link import Failed, Hello, Parked
from support.agent_core import KILLED, Core, make_order, seat
from support.messages import DURATIONS


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


def test_a_script_that_does_not_join_is_warned_of_once() -> None:
    core = Core(nproc=2, limits=Limits(join_seconds=10))
    core.tick()
    core.say(Hello(local_rank=0, pid=7), rank=0)
    core.pass_seconds(30)
    (warning,) = core.done(Warn)
    assert warning.what == "script_has_not_joined"
    assert "worker 1" in warning.detail


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
