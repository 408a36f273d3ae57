"""Losses and failures: R13, R18, R20, R21; the cases EC-07, 11, 20, 32, 37, 43."""

import pytest
from everstep_adjudicator.policy import Policy
from everstep_contract.facts.node import WatcherBlinded
from everstep_contract.record import MilestoneName
from everstep_contract.verdicts import AwaitReplacement, RestartWorkers, Shrink, Swap
from support.courtroom import heal, running
from support.gang import all_of, member


def test_survivors_above_the_floor_shrink_in_the_moment_of_proof() -> None:
    room = running()
    proven_at = room.monotonic
    room.lose(member(3))
    assert room.record.verdict == Shrink(lost=("trainer-3.1",))
    assert (room.record.state, room.record.phase) == ("run", "decided")
    assert room.monotonic == proven_at


def test_survivors_keep_their_relative_rank_order() -> None:
    room = running()
    room.lose(member(3))
    assert room.names == [f"trainer-{i}.1" for i in (0, 1, 2, 4, 5, 6, 7)]


def test_ec37_a_loss_is_decided_without_any_failed_collective_or_last_word() -> None:
    room = running(3, min_member=2)
    room.kill("trainer-2.1")
    room.hear(room.suspicion(member(2)))
    room.answer(member(2), "silent")
    assert room.verdicts[-1] == "shrink"


def test_ec20_a_member_that_leaves_removes_only_itself() -> None:
    room = running(3, min_member=2)
    room.kill("trainer-2.1")
    room.hear(room.departure(member(2)))
    heal(room)
    room.start(member(2, life=2))
    room.pass_time(5)
    assert room.verdicts == ["form", "shrink", "grow"]
    assert room.names == ["trainer-0.1", "trainer-1.1", "trainer-2.2"]


def test_ec11_the_store_moves_when_its_host_is_lost() -> None:
    room = running()
    assert room.record.store_host == "trainer-0.1"
    room.lose(member(0))
    assert room.record.store_host == "trainer-1.1"


def test_a_warm_spare_is_swapped_in_with_the_same_generation() -> None:
    room = running(9, max_member=8)
    room.start(member(8))
    room.lose(member(3))
    assert room.record.verdict == Swap(lost=("trainer-3.1",), added=("trainer-8.1",))
    assert room.names[-1] == "trainer-8.1"
    assert len(room.names) == 8


def test_a_loss_of_hundreds_is_ruled_on_in_words_that_fit() -> None:
    room = running(256, min_member=8)
    room.fold(*(room.departure(member(index)) for index in range(8, 256)))
    room.rule()
    assert len(room.record.seats) == 8
    assert room.record.reason.startswith("lost trainer-8, trainer-9, ")
    assert "and 242 more; 8 survivors" in room.record.reason


def test_ec07_below_the_floor_nothing_runs() -> None:
    room = running(5, min_member=4)
    room.lose(member(0))
    heal(room)
    room.lose(member(1))
    wait = room.policy.hold_seconds
    assert room.record.verdict == AwaitReplacement(lost=("trainer-1.1",), wait_seconds=wait)
    assert (room.record.state, room.record.phase) == ("hold", "holding")


def test_r20_hold_keeps_the_survivors_in_rank_order() -> None:
    room = running(6, min_member=6)
    room.lose(member(2))
    assert room.names == [f"trainer-{i}.1" for i in (0, 1, 3, 4, 5)]


def test_a_spare_lifts_survivors_over_the_floor() -> None:
    room = running(6, min_member=6)
    room.start(member(6))
    room.lose(member(2))
    assert room.verdicts[-1] == "swap"


def test_ec32_a_member_lost_before_the_first_step_supersedes_the_generation() -> None:
    room = running(4, min_member=2)
    room.lose(member(3))
    room.obey("trainer-0.1", "trainer-1.1", until="joined")
    room.pass_time(0.2)
    room.lose(member(2))
    assert room.verdicts == ["form", "shrink", "shrink"]
    assert room.names == ["trainer-0.1", "trainer-1.1"]


def test_two_losses_in_one_instant_are_one_generation() -> None:
    room = running()
    room.hear(room.suspicion(member(3)), room.suspicion(member(5)))
    room.answer(member(3), "refused")
    assert room.verdicts == ["form"]
    room.answer(member(5), "refused")
    assert room.record.verdict == Shrink(lost=("trainer-3.1", "trainer-5.1"))


def test_a_proven_loss_waits_only_briefly_for_what_is_not_proven() -> None:
    room = running()
    room.hear(room.suspicion(member(3)), room.suspicion(member(5)))
    room.answer(member(3), "refused")
    room.pass_time(room.policy.settle_seconds)
    assert room.record.verdict == Shrink(lost=("trainer-3.1",))


def test_ec43_thirty_deaths_in_three_seconds_are_few_generations() -> None:
    room = running(32, min_member=1)
    for index in range(30):
        room.lose(member(index))
        room.pass_time(0.1)
    room.pass_time(5)
    assert len(room.names) == 2
    assert 2 <= len(room.records) - 1 <= 7


def test_r18_who_has_not_joined_at_the_deadline_is_left_out() -> None:
    room = running(8, min_member=6)
    room.lose(member(7))
    room.obey(*(f"trainer-{i}.1" for i in range(6)), until="joined")
    room.pass_time(room.policy.form_seconds + 0.1)
    assert room.record.verdict == Shrink(lost=("trainer-6.1",))
    assert [item.kind for item in room.record.evidence] == ["not_joined"]


def test_r18_the_deadline_runs_from_the_orders_receipt() -> None:
    room = running(8, min_member=6)
    room.lose(member(7))
    room.pass_time(10 * room.policy.form_seconds)
    assert room.verdicts == ["form", "shrink"]


def test_r18_absence_after_a_deaf_spell_is_no_absence() -> None:
    room = running(8, min_member=6)
    room.lose(member(7))
    room.obey(*(f"trainer-{i}.1" for i in range(6)), until="joined")
    room.pass_time(room.policy.form_seconds + 10, reporting=False)
    room.report("trainer-0.1")
    room.rule()
    assert room.verdicts == ["form", "shrink"]


def test_r18_nobody_is_left_out_while_the_watcher_is_blind() -> None:
    room = running(8, min_member=6)
    room.lose(member(7))
    room.obey(*(f"trainer-{i}.1" for i in range(6)), until="joined")
    for _ in range(10):
        room.hear(WatcherBlinded(at=room.now.at, node="n", episode=1, detail="canaries"))
        room.pass_time(3)
    assert room.verdicts == ["form", "shrink"]


def test_r17_all_joined_and_no_group_is_the_same_members_on_another_store() -> None:
    room = running(4, min_member=2)
    room.lose(member(3))
    room.obey(until="joined")
    room.pass_time(room.policy.form_seconds + 0.1)
    assert room.record.verdict == RestartWorkers(failed=())
    assert room.names == ["trainer-0.1", "trainer-1.1", "trainer-2.1"]
    assert room.record.store_host == "trainer-1.1"


def test_forming_again_and_again_is_given_up_by_the_budget() -> None:
    room = running(3, min_member=3, policy=Policy(restart_budget=4))
    room.hear(room.exit_of(member(0)))
    for _ in range(6):
        room.obey(until="joined")
        room.pass_time(room.policy.form_seconds + 0.1)
    assert room.verdicts == ["form", *["restart_workers"] * 4, "give_up"]
    assert room.record.state == "stop"


@pytest.mark.parametrize("classified", ["application", "killed", "out_of_memory", "unknown"])
def test_a_dead_worker_on_a_living_member_restarts_workers_and_keeps_all(classified: str) -> None:
    room = running()
    room.hear(room.exit_of(member(4), classified))
    assert room.record.verdict == RestartWorkers(failed=("trainer-4.1",))
    assert len(room.names) == 8


def test_a_worker_that_finished_is_no_failure() -> None:
    room = running()
    room.hear(room.exit_of(member(4), "finished"))
    assert room.verdicts == ["form"]


def test_a_worker_exit_of_an_older_generation_is_nothing() -> None:
    room = running()
    room.lose(member(3))
    room.hear(room.exit_of(member(4), generation=1))
    assert room.verdicts == ["form", "shrink"]


def test_a_worker_exit_that_nobody_told_of_shows_in_the_reports() -> None:
    room = running()
    room.agents["trainer-4.1"].phase = "starting"
    room.pass_time(room.policy.collective_settle_seconds + 1.1)
    assert room.record.verdict == RestartWorkers(failed=("trainer-4.1",))


def test_r13_a_broken_group_of_living_members_forms_again() -> None:
    room = running()
    room.hear(*(room.collective_failure(member(i)) for i in range(8)))
    assert room.verdicts == ["form"]
    room.pass_time(room.policy.collective_settle_seconds)
    assert room.record.verdict == RestartWorkers(failed=())


def test_r13_a_broken_group_that_nobody_told_of_shows_in_the_reports() -> None:
    room = running()
    for agent in room.agents.values():
        agent.phase = "leaving"
    room.pass_time(room.policy.collective_settle_seconds + 1.1)
    assert room.record.verdict == RestartWorkers(failed=())


def test_r13_the_lost_one_behind_a_broken_group_is_found_first() -> None:
    room = running()
    room.kill("trainer-3.1")
    room.hear(*(room.collective_failure(member(i)) for i in (2, 4)))
    room.pass_time(0.7)
    room.hear(room.suspicion(member(3)))
    room.answer(member(3), "silent")
    assert room.verdicts == ["form", "shrink"]


def test_r13_a_broken_group_waits_for_word_of_a_member_that_reports_no_more() -> None:
    room = running()
    room.kill("trainer-3.1")
    room.hear(*(room.collective_failure(member(i)) for i in (2, 4)))
    room.pass_time(room.policy.collective_settle_seconds + 1)
    assert room.verdicts == ["form"]
    room.hear(room.suspicion(member(3)))
    room.answer(member(3), "silent")
    assert room.verdicts == ["form", "shrink"]


def test_r13_whoever_reports_no_more_after_a_broken_group_is_missed_without_a_detector() -> None:
    room = running()
    room.kill("trainer-3.1")
    room.hear(*(room.collective_failure(member(i)) for i in (2, 4)))
    room.pass_time(room.policy.collective_settle_seconds)
    room.answer(member(3), "refused")
    assert room.verdicts == ["form", "shrink"]


def test_r21_without_a_survivor_and_without_proof_nothing_is_decided() -> None:
    room = running(2, min_member=1)
    room.kill("trainer-0.1", "trainer-1.1")
    room.start(member(2), member(3))
    room.hear(room.suspicion(member(0)), room.suspicion(member(1)))
    room.answer(member(0), "silent")
    room.answer(member(1), "silent")
    assert room.verdicts == ["form"]
    assert "no proof" in room.waiting_for


def test_r21_one_member_proven_dead_is_proof_that_its_generation_can_step_no_more() -> None:
    room = running(2, min_member=1)
    room.kill("trainer-0.1", "trainer-1.1")
    room.start(member(2), member(3))
    room.hear(room.suspicion(member(0)), room.suspicion(member(1)))
    room.answer(member(0), "silent")
    room.answer(member(1), "refused")
    assert room.verdicts[-1] == "swap"
    assert room.names == ["trainer-2.1", "trainer-3.1"]


def test_r21_who_was_never_in_the_old_generation_cannot_vouch_for_its_end() -> None:
    room = running(2, min_member=1)
    room.start(member(2))
    room.kill("trainer-1.1")
    room.hear(room.suspicion(member(1)))
    room.answer(member(1), "silent")
    assert room.names == ["trainer-0.1", "trainer-2.1"]
    room.pass_time(1)
    room.kill("trainer-0.1")
    room.hear(room.suspicion(member(0)))
    room.answer(member(0), "silent")
    room.pass_time(1)
    assert room.verdicts == ["form", "swap"]
    assert "no proof" in room.waiting_for


def test_r21_who_left_the_old_generation_vouches_for_its_end_even_if_lost_later() -> None:
    room = running(2, min_member=1)
    room.start(member(2))
    room.kill("trainer-1.1")
    room.hear(room.suspicion(member(1)))
    room.answer(member(1), "silent")
    room.obey("trainer-0.1", "trainer-2.1", until="joined")
    room.pass_time(1)
    room.kill("trainer-0.1")
    room.hear(room.suspicion(member(0)))
    room.answer(member(0), "silent")
    room.pass_time(1)
    assert room.names == ["trainer-2.1"]


def test_nobody_is_missed_while_the_job_finishes() -> None:
    room = running(3, min_member=3)
    for who in all_of(3):
        room.hear(room.departure(who, "finished"))
    assert room.verdicts == ["form"]
    assert room.record.phase == "ended"
    assert room.incidents == []


def test_who_finishes_alone_is_missed_after_a_while() -> None:
    room = running(3, min_member=2)
    room.kill("trainer-2.1")
    room.hear(room.departure(member(2), "finished"))
    room.pass_time(room.policy.finish_seconds + 1)
    assert room.verdicts == ["form", "shrink"]


def test_an_incident_ruled_twice_keeps_its_first_decision_and_its_last_generation() -> None:
    room = running(8, min_member=4)
    room.lose(member(3))
    first = room.record.decided_at
    room.pass_time(1)
    room.lose(member(2))
    heal(room)
    incident = room.incidents[-1]
    decided: MilestoneName = "decided"
    assert incident.milestones[decided] == first
    assert (incident.generation_before, incident.generation_after) == (1, 3)
