"""Joined, formed, steps and reports: each is told when it is true, and once."""

import pytest
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberFormed, MemberJoined
from everstep_contract.identity import Endpoint
from everstep_trainer.agent.inputs import StoreUp
from everstep_trainer.link import Left, Parked
from support.agent_core import Core, make_order


def test_r16_it_joins_only_when_every_worker_has_left() -> None:
    core = Core(nproc=2).warm()
    core.order(make_order(1, nproc=2))
    joined = len(core.published(MemberJoined))
    core.say(Left(generation=1, left_generation=0, version=-1), rank=0)
    assert len(core.published(MemberJoined)) == joined
    core.say(Left(generation=1, left_generation=0, version=-1), rank=1)
    assert core.published(MemberJoined)[-1].generation == 1
    assert core.last_report.report.phase == "joined"


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


def test_a_member_tells_where_its_state_came_from_and_when_its_slowest_worker_had_it() -> None:
    core = Core(nproc=2).warm()
    core.order(make_order(1, nproc=2))
    heard_at = core.seconds
    core.leave()
    for rank, later in ((0, 0.25), (1, 0.5)):
        restored = {
            "source": "disk",
            "checkpoint": "g1-s5",
            "chosen_at": heard_at + later,
            "loaded_at": heard_at + 2 * later,
        }
        core.say(core.formed_message(agreed_step=5).model_copy(update=restored), rank)
    (formed,) = core.published(MemberFormed)
    assert (formed.source, formed.checkpoint) == ("disk", "g1-s5")
    assert (formed.chosen_seconds, formed.loaded_seconds) == (0.5, 1.0)


def test_a_living_state_is_neither_chosen_nor_loaded() -> None:
    core = Core().warm().run(make_order(1))
    (formed,) = core.published(MemberFormed)
    assert (formed.source, formed.checkpoint) == ("living", "")
    assert (formed.chosen_seconds, formed.loaded_seconds) == (None, None)


def test_r19_a_candidate_is_ready_only_when_warm() -> None:
    core = Core()
    core.tick()
    core.born()
    core.say(Parked(generation=0, version=-1))
    assert core.published(MemberJoined) == []
    core.hear(StoreUp(Endpoint(host="10.0.0.1", port=1)))
    (joined,) = core.published(MemberJoined)
    assert (joined.generation, joined.report.phase) == (0, "ready")


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
