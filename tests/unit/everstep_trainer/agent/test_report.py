"""What an agent says of itself."""

from everstep_trainer.link import Finished, Left, Parked
from support.agent_core import Core, make_order, page


def test_the_phase_is_that_of_the_slowest_worker() -> None:
    core = Core(nproc=2).warm()
    core.order(make_order(1, nproc=2))
    phases = [core.last_report.report.phase]
    core.leave()
    phases.append(core.last_report.report.phase)
    for rank in (0, 1):
        core.say(core.formed_message(), rank)
        phases.append(core.last_report.report.phase)
    assert phases == ["leaving", "joined", "joined", "formed"]


def test_a_member_whose_group_broke_is_in_none() -> None:
    core = Core().warm().run(make_order(1))
    core.say(Parked(generation=1, version=1))
    assert core.last_report.report.phase == "leaving"


def test_a_worker_whose_loop_has_ended_does_not_hold_the_phase_back() -> None:
    core = Core(nproc=2).warm().run(make_order(1, nproc=2))
    core.say(Finished(step=1), 0)
    core.tick()
    assert core.last_report.report.phase == "stepping"


def test_the_version_told_is_the_newest_word_of_worker_or_page() -> None:
    core = Core().warm().run(make_order(1))
    core.step_to(5)
    core.tick()
    core.order(make_order(2))
    core.say(Left(generation=2, left_generation=1, version=6))
    report = core.last_report.report
    assert (report.version, report.step) == (6, 6)


def test_step_durations_are_told_as_quantiles_of_the_slowest_worker() -> None:
    core = Core(nproc=2).warm().run(make_order(1, nproc=2))
    slow = tuple(float(n) for n in range(1, 101))
    core.pages = [page(5, step_seconds=slow), page(5, step_seconds=(0.1,) * 100)]
    core.pass_seconds(1)
    report = core.last_report.report
    assert (report.step_seconds_p50, report.step_seconds_p99) == (51.0, 100.0)


def test_before_the_first_step_nothing_is_said_of_its_duration() -> None:
    assert Core().warm().last_report.report.step_seconds_p99 is None


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
