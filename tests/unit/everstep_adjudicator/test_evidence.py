"""R2, R10-R14: what condemns a member, what does not, and what clears it."""

from datetime import timedelta

import pytest
from everstep_adjudicator.actions import ProbeEnded
from everstep_adjudicator.case import Case
from everstep_adjudicator.fold_evidence import MISSED_SECONDS
from everstep_adjudicator.model import BLINDNESS_BELIEVED_SECONDS
from everstep_contract.facts.node import NodeObserved, WatcherBlinded, WatcherSighted
from support.courtroom import WATCHER, Courtroom, running
from support.gang import Agent, member

SUSPECT = member(3)


def condemned(room: Courtroom) -> list[str]:
    case = Case.of(room.view, room.policy, room.now)
    return [judgement.incarnation for judgement in case.condemned]


def kinds(room: Courtroom) -> list[str]:
    return [item.kind for item in room.record.evidence]


@pytest.mark.parametrize("reason", ["connection_closed", "connection_stale", "not_connected"])
def test_r10_silence_alone_condemns_nobody(reason: str) -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, reason))
    assert condemned(room) == []
    assert room.verdicts == ["form"]


def test_r10_a_standing_suspicion_is_weighed_again_after_a_restart() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, "not_connected", reassertion=9))
    room.answer(SUSPECT, "refused")
    assert room.verdicts == ["form", "shrink"]


def test_r11_a_connection_refused_by_a_living_kernel_is_conclusive_at_once() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, "connection_closed"))
    room.answer(SUSPECT, "refused", witnesses=1)
    assert room.verdicts[-1] == "shrink"
    assert kinds(room) == ["probe_refused"]


def test_r11_another_incarnation_at_the_suspects_port_is_conclusive() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, "connection_closed"))
    room.answer(SUSPECT, "other_incarnation", witnesses=1)
    assert kinds(room) == ["other_incarnation"]


def test_r11_containers_terminated_by_the_apis_word_are_conclusive_without_silence() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, "pod_terminated"))
    assert kinds(room) == ["pod_terminated"]


def test_r11_an_agent_that_says_good_bye_is_conclusive() -> None:
    room = running()
    room.hear(room.departure(SUSPECT))
    assert kinds(room) == ["left", "planned"]


def test_r11_a_node_out_of_service_is_proof_for_its_members() -> None:
    room = running()
    room.hear(
        NodeObserved(
            at=room.now.at,
            node=SUSPECT.node,
            ready="Unknown",
            out_of_service=True,
            resource_version="9",
        )
    )
    assert kinds(room) == ["fenced"]


def test_r11_fatal_hardware_evidence_from_a_worker_costs_the_member() -> None:
    room = running()
    room.hear(room.exit_of(SUSPECT, "hardware"))
    assert (room.verdicts[-1], kinds(room)) == ("shrink", ["hardware_fault"])


def test_r11_one_failed_probe_is_not_enough_and_two_are() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    room.answer(SUSPECT, "silent", witnesses=1)
    assert condemned(room) == []
    room.answer(SUSPECT, "silent", witnesses=1)
    assert kinds(room) == ["connection_stale", "probe_silent", "probe_silent"]


def test_r11_the_same_witness_twice_is_one_witness() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    witness = min(room.view.probing[SUSPECT.incarnation].pending)
    for _ in range(2):
        room.hear(
            ProbeEnded(target=SUSPECT.incarnation, witness=witness, outcome="silent"),
        )
    assert condemned(room) == []


def test_r11_in_a_gang_of_two_the_only_other_member_is_quorum() -> None:
    room = running(2, min_member=1)
    room.hear(room.suspicion(member(1)))
    room.answer(member(1), "silent")
    assert room.verdicts[-1] == "shrink"


def test_r11_failed_probes_without_silence_condemn_nobody() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, "node_not_ready"))
    room.answer(SUSPECT, "silent")
    assert condemned(room) == []


@pytest.mark.parametrize("word", ["node_not_ready", "pod_deleted"])
def test_r11_kubernetes_word_is_conclusive_together_with_silence_only(word: str) -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, word, witness="kubernetes"))
    assert condemned(room) == []
    room.hear(room.suspicion(SUSPECT))
    assert room.verdicts[-1] == "shrink"


def test_r11_no_step_for_many_steps_is_conclusive_together_with_silence() -> None:
    room = running()
    room.kill(SUSPECT.incarnation)
    room.hear(room.suspicion(SUSPECT))
    assert "no_step" not in room.waiting_for
    room.pass_time(room.policy.stall_floor_seconds + 0.1)
    assert room.verdicts[-1] == "shrink"
    assert "no_step" in kinds(room)


def test_r11_no_step_without_silence_condemns_nobody() -> None:
    room = running()
    room.pass_time(60)
    assert room.verdicts == ["form"]


def test_r12_the_same_incarnation_connected_again_is_exonerated() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    room.hear(room.recovery(SUSPECT))
    assert room.incidents[-1].outcome == "dismissed"
    room.pass_time(60)
    assert room.verdicts == ["form"]


def test_r12_a_recovery_from_an_older_suspicion_does_not_clear_a_newer_one() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, observation=2))
    room.hear(room.recovery(SUSPECT, observation=1))
    assert room.view.standing(SUSPECT.incarnation)


def test_r12_a_probe_that_finds_it_alive_exonerates() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    room.answer(SUSPECT, "alive", witnesses=1)
    assert room.incidents[-1].outcome == "dismissed"


def test_r12_a_step_that_began_later_exonerates() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, "node_not_ready"))
    room.kill(SUSPECT.incarnation)
    room.step()
    room.step()
    assert room.view.standing(SUSPECT.incarnation)
    room.step()
    assert not room.view.standing(SUSPECT.incarnation)


def test_r12_the_step_in_flight_at_the_suspicion_exonerates_nobody() -> None:
    room = running()
    room.step(5)
    room.hear(room.suspicion(SUSPECT))
    room.kill(SUSPECT.incarnation)
    for _ in range(5):
        room.hear(room.report_of("trainer-0.1"))
    assert room.view.standing(SUSPECT.incarnation)


def test_r12_steps_taken_before_the_suspicion_but_told_after_it_exonerate_nobody() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    room.kill(SUSPECT.incarnation)
    room.step(40)
    assert room.view.standing(SUSPECT.incarnation)


def test_r12_step_progress_outranks_kubernetes_unknown() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT, "node_not_ready"))
    for _ in range(4):
        room.step()
    assert room.incidents[-1].outcome == "dismissed"
    assert room.incidents[-1].verdict == "tolerate"


def test_r12_what_was_cleared_counts_again_when_steps_stop() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    room.answer(SUSPECT, "alive")
    room.pass_time(30)
    room.hear(room.suspicion(SUSPECT, reassertion=1))
    room.answer(SUSPECT, "silent")
    assert room.verdicts[-1] == "shrink"


def test_r10_without_a_watcher_the_agents_own_reports_are_missed() -> None:
    room = running()
    room.kill(SUSPECT.incarnation)
    room.pass_time(MISSED_SECONDS + 1)
    assert [s.witness for s in room.view.standing(SUSPECT.incarnation)] == ["adjudicator"]
    room.answer(SUSPECT, "refused")
    assert room.verdicts[-1] == "shrink"


def test_r10_nobody_is_missed_by_who_hears_nobody() -> None:
    room = running()
    room.pass_time(60, reporting=False)
    room.hear(room.report_of("trainer-0.1"))
    assert not room.view.suspicions


def test_r10_a_silence_that_the_watcher_told_of_is_not_told_twice() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    room.kill(SUSPECT.incarnation)
    for _ in range(10):
        room.pass_time(0.5)
        room.step()
    assert [s.witness for s in room.view.suspicions.values()] == [WATCHER]


def test_a_tolerated_member_stays_tolerated_while_steps_go_on() -> None:
    room = running()
    room.hear(room.suspicion(SUSPECT))
    room.answer(SUSPECT, "alive")
    for reassertion in range(1, 10):
        room.pass_time(4)
        room.step()
        room.hear(room.suspicion(SUSPECT, reassertion=reassertion))
    assert len(room.incidents) == 1
    assert room.view.incident is None


def test_r13_a_collective_failure_of_an_older_generation_is_nothing() -> None:
    room = running()
    first = room.record
    room.lose(SUSPECT)
    room.hear(room.collective_failure(member(0), member(1), first))
    assert not room.view.standing("trainer-1.1")
    assert not room.view.collective_failures


def test_r13_a_named_peer_is_looked_at_and_condemned_only_by_proof() -> None:
    room = running()
    room.hear(room.collective_failure(member(0), SUSPECT))
    assert {probe.target for probe in room.probes} == {SUSPECT.incarnation}
    room.answer(SUSPECT, "silent")
    assert condemned(room) == []


def test_r13_a_named_peer_that_itself_reports_is_alive() -> None:
    room = running()
    room.hear(room.collective_failure(member(0), SUSPECT))
    room.hear(room.report_of(SUSPECT.incarnation), room.report_of(SUSPECT.incarnation))
    assert not room.view.standing(SUSPECT.incarnation)


def blinded(room: Courtroom) -> WatcherBlinded:
    return WatcherBlinded(at=room.now.at, node="node-w", episode=1, detail="canaries are gone")


def stays_blind(room: Courtroom, seconds: float) -> None:
    """The watcher says every three seconds that it still is."""
    for _ in range(int(seconds / 3) + 1):
        room.hear(blinded(room))
        room.pass_time(3)


def test_r14_a_blind_watcher_condemns_nobody_by_silence() -> None:
    room = running()
    room.hear(blinded(room))
    room.hear(room.suspicion(SUSPECT))
    room.answer(SUSPECT, "silent")
    stays_blind(room, 40)
    assert room.verdicts == ["form"]


def test_r14_a_watcher_that_died_blind_is_believed_no_longer() -> None:
    room = running()
    room.kill(SUSPECT.incarnation)
    room.hear(blinded(room))
    room.hear(room.suspicion(SUSPECT))
    room.answer(SUSPECT, "silent")
    room.pass_time(BLINDNESS_BELIEVED_SECONDS + 1)
    assert room.verdicts[-1] == "shrink"


def test_r14_sighted_again_the_same_evidence_counts() -> None:
    room = running()
    room.hear(blinded(room), room.suspicion(SUSPECT))
    room.answer(SUSPECT, "silent")
    room.hear(WatcherSighted(at=room.now.at, node="node-w", episode=1))
    assert room.verdicts[-1] == "shrink"


def test_r14_a_proof_that_does_not_come_from_the_watcher_counts_while_it_is_blind() -> None:
    room = running()
    room.hear(blinded(room), room.departure(SUSPECT))
    assert room.verdicts[-1] == "shrink"


def test_r14_blindness_ends_bounded_in_holding_observer_blind() -> None:
    room = running()
    for index in range(8):
        room.kill(member(index).incarnation)
    room.hear(blinded(room), *(room.suspicion(member(index)) for index in range(8)))
    stays_blind(room, room.policy.blind_seconds + 1)
    ended = room.incidents[-1]
    assert (ended.outcome, ended.reason.partition(":")[0]) == ("holding", "observer_blind")
    assert room.verdicts == ["form"]


def test_r15_a_suspicion_that_still_stands_counts_however_old_it_is() -> None:
    room = running()
    old = room.suspicion(SUSPECT).model_copy(update={"at": room.now.at - timedelta(hours=9)})
    room.hear(old)
    room.answer(SUSPECT, "refused")
    assert room.verdicts[-1] == "shrink"


def test_r2_a_new_incarnation_of_a_current_member_is_proof_that_the_old_one_is_dead() -> None:
    room = running()
    room.kill(SUSPECT.incarnation)
    room.pass_time(2)
    room.start(member(3, life=2))
    assert (room.verdicts[-1], kinds(room)) == ("swap", ["other_incarnation"])


def test_r2_a_member_that_goes_on_reporting_has_no_successor() -> None:
    room = running()
    room.start(member(3, life=0))
    room.pass_time(5)
    assert room.verdicts == ["form"]


def test_r2_reports_of_an_older_life_replayed_after_a_restart_are_no_proof() -> None:
    room = running()
    room.agents["trainer-3.0"] = Agent(member(3, life=0))
    stale = [room.report_of("trainer-3.0", at=room.now.at - timedelta(minutes=5)) for _ in range(2)]
    room.kill("trainer-3.0", "trainer-3.1")
    room.pass_time(1)
    room.hear(*stale)
    assert condemned(room) == []


def test_another_boot_of_its_node_condemns_a_silent_member_with_proof() -> None:
    room = running()
    room.kill("trainer-3.1")
    room.suspect(member(3))
    room.hear(room.suspicion(member(3), "node_rebooted", witness="node_watcher/kubernetes"))
    assert room.verdicts == ["form", "shrink"]
    assert "node_rebooted" in kinds(room)


def test_another_boot_condemns_nobody_who_is_heard_of() -> None:
    room = running()
    room.hear(room.suspicion(member(3), "node_rebooted", witness="node_watcher/kubernetes"))
    room.pass_time(5)
    assert room.verdicts == ["form"]


def test_ec52_a_node_that_is_not_ready_condemns_nobody_while_its_ranks_step() -> None:
    room = running()
    room.suspect(member(3), "node_not_ready")
    for reassertion in range(1, 20):
        room.step()
        room.hear(room.suspicion(member(3), "node_not_ready", reassertion=reassertion))
        room.pass_time(3)
    assert room.verdicts == ["form"]
    assert {incident.outcome for incident in room.incidents} <= {"dismissed"}
