"""Whom the cluster's word gives cause to suspect, and when it says nothing."""

from everstep_contract.facts.member import MemberSuspected
from everstep_contract.identity import Member
from everstep_node_watcher.cluster_decide import Doubt, opinion
from everstep_node_watcher.cluster_view import REMEMBERED_LIMIT, ClusterView, State, trouble_after
from everstep_node_watcher.model import Cause, Policy, Spoken
from everstep_node_watcher.suspicions import Voice, speak
from everstep_runtime.clock import Moment
from support.cluster_states import node, pod
from support.connections import client
from support.jobs import JOB, NOW, member, record

ONE, TWO = member(1), member(2)
POLICY = Policy(witness="watcher", node="here", not_ready_seconds=30.0, ready_again_seconds=10.0)
VOICE = Voice("watcher/kubernetes", 3.0)
CERTAIN = Doubt()


class Seen:
    """A cluster watched from the start, with members 1 and 2 seated."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.spoken = Spoken()
        self.view.seat(JOB, record(1, (ONE, TWO)))
        for each in (ONE, TWO):
            self.see(pod(each))
            self.see(node(each.node))

    def see(self, state: State, *, at: float = 0.0, deleted: bool = False) -> None:
        self.view.take(state, at, deleted=deleted, policy=POLICY)

    def cause(self, of: Member, *, at: float = 0.0, doubt: Doubt = CERTAIN) -> Cause | None:
        return opinion(self.view, self.spoken, doubt, POLICY, at).causes.get(client(of))

    def reasons(self, *, at: float = 0.0, doubt: Doubt = CERTAIN) -> dict[Member, str]:
        found = {each: self.cause(each, at=at, doubt=doubt) for each in (ONE, TWO)}
        return {each: cause.reason for each, cause in found.items() if cause is not None}

    def speak(self, *, at: float, doubt: Doubt = CERTAIN) -> tuple[MemberSuspected, ...]:
        """What is said at that time, after all that was said before."""
        found = opinion(self.view, self.spoken, doubt, POLICY, at)
        self.spoken, facts = speak(found.causes, self.spoken, VOICE, Moment(NOW, at), found.held)
        return facts


def test_a_terminated_pod_gives_cause_to_suspect_its_member() -> None:
    seen = Seen()
    seen.see(pod(ONE, phase="Failed", terminated=True), at=7.0)
    assert seen.reasons() == {ONE: "pod_terminated"}
    cause = seen.cause(ONE)
    assert cause is not None
    assert cause.since == 7.0


def test_a_deleted_pod_gives_cause_though_its_name_is_used_again() -> None:
    seen = Seen()
    seen.see(pod(ONE), deleted=True)
    seen.see(pod(member(1, life=2)))
    assert seen.reasons() == {ONE: "pod_deleted"}


def test_a_pod_that_is_only_asked_to_go_is_suspected_of_nothing() -> None:
    seen = Seen()
    seen.see(pod(ONE, terminating=True, cause="evicted", grace_seconds=30))
    assert seen.reasons(at=3600.0) == {}


def test_r11_a_node_that_is_not_ready_or_unknown_for_long_gives_cause_while_it_is() -> None:
    for trouble in ("False", "Unknown"):
        seen = Seen()
        seen.see(node(ONE.node, ready=trouble), at=1.0)
        assert seen.reasons(at=31.0) == {ONE: "node_not_ready"}
        seen.see(node(ONE.node), at=32.0)
        assert seen.reasons(at=33.0) == {}


def test_ec52_a_node_that_is_not_ready_for_a_moment_gives_no_cause() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="False", ready_reason="KubeletNotReady: PLEG"), at=0.0)
    assert seen.reasons(at=1.0) == {}
    seen.see(node(ONE.node), at=1.0)
    assert seen.reasons(at=3600.0) == {}
    assert seen.view.flaps == 1


def test_ec52_silence_confirms_a_nodes_trouble_at_once() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="False"), at=0.0)
    silent = Doubt(silent=frozenset({client(ONE)}))
    assert seen.reasons(at=0.1, doubt=silent) == {ONE: "node_not_ready"}


def test_ec52_a_relapse_soon_after_is_the_same_trouble() -> None:
    seen = Seen()
    for second in range(0, 40, 4):  # three seconds NotReady, one Ready
        seen.see(node(ONE.node, ready="False"), at=second)
        seen.see(node(ONE.node), at=second + 3.0)
    seen.see(node(ONE.node, ready="False"), at=40.0)
    cause = seen.cause(ONE, at=40.0)
    assert cause is not None
    assert cause.since == 0.0


def test_ec52_a_trouble_ends_when_the_node_was_ready_for_a_while() -> None:
    trouble = trouble_after(None, 0.0, ready=False, policy=POLICY)
    trouble = trouble_after(trouble, 5.0, ready=True, policy=POLICY)
    relapse = trouble_after(trouble, 16.0, ready=False, policy=POLICY)
    assert relapse is not None
    assert relapse.since == 16.0


def test_ec52_what_was_said_of_a_wavering_node_is_neither_repeated_nor_said_anew() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"), at=0.0)
    assert [fact.observation for fact in seen.speak(at=30.0)] == [1]
    seen.see(node(ONE.node), at=31.0)
    assert seen.speak(at=35.0) == ()
    seen.see(node(ONE.node, ready="Unknown"), at=36.0)
    again = seen.speak(at=37.0)
    assert [(fact.observation, fact.reassertion) for fact in again] == [(1, 1)]


def test_a_suspicion_ends_with_the_nodes_trouble() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"), at=0.0)
    seen.speak(at=30.0)
    seen.see(node(ONE.node), at=31.0)
    seen.view.well_again(41.0, POLICY)
    assert seen.speak(at=41.0) == ()
    assert not seen.spoken.standing


def test_a_suspicion_says_why_the_node_is_not_ready() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="False", ready_reason="KubeletNotReady: PLEG"), at=0.0)
    cause = seen.cause(ONE, at=30.0)
    assert cause is not None
    assert cause.detail == f"node not ready: {ONE.node}; KubeletNotReady: PLEG"


def test_a_deleted_node_and_one_out_of_service_give_cause_at_once() -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    seen = Seen()
    seen.see(node(ONE.node), deleted=True)
    seen.see(node(TWO.node, taints=(taint,)))
    assert seen.reasons() == {ONE: "node_not_ready", TWO: "node_not_ready"}


def test_a_node_of_the_same_name_and_another_boot_ends_whoever_sat_on_it() -> None:
    seen = Seen()
    seen.see(node(ONE.node, boot_id="boot-2"), at=5.0)
    assert seen.reasons() == {ONE: "node_rebooted"}


def test_a_node_made_anew_in_the_same_boot_ends_nobody() -> None:
    seen = Seen()
    seen.see(node(ONE.node, uid="old"), deleted=True)
    seen.see(node(ONE.node, uid="new"))
    assert seen.reasons() == {}


def test_a_node_made_anew_in_another_boot_ends_whoever_sat_on_it() -> None:
    seen = Seen()
    seen.see(node(ONE.node, uid="old"), deleted=True)
    seen.see(node(ONE.node, uid="new", boot_id="boot-2"))
    assert seen.reasons() == {ONE: "node_rebooted"}


def test_the_late_end_of_a_nodes_predecessor_says_nothing_of_the_node() -> None:
    seen = Seen()
    seen.see(node(ONE.node, uid="new"))
    seen.see(node(ONE.node, uid="old"), deleted=True)
    assert seen.reasons() == {}


def test_whoever_sits_down_after_the_reboot_is_not_ended_by_it() -> None:
    seen, later = Seen(), member(1, life=2)
    seen.see(node(ONE.node, boot_id="boot-2"))
    seen.view.seat(JOB, record(2, (later, TWO)))
    assert seen.reasons() == {}


def test_ec34_a_cordon_of_others_and_a_planned_removal_give_no_cause() -> None:
    seen = Seen()
    taint = {"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}
    seen.see(node(ONE.node, unschedulable=True, taints=(taint,)))
    assert seen.reasons(at=3600.0) == {}


def test_only_seated_members_are_suspected() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"))
    seen.view.seat(JOB, record(2, (TWO,)))
    assert seen.reasons(at=60.0) == {}
    seen.view.seat(JOB, record(3, (ONE, TWO), phase="ended", state="stop"))
    assert seen.reasons(at=60.0) == {}


def test_ec01_what_was_said_before_the_cluster_fell_silent_stands_and_is_not_repeated() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"), at=0.0)
    assert len(seen.speak(at=30.0)) == 1
    blind = Doubt(stale=frozenset({"nodes"}))
    assert seen.speak(at=90.0, doubt=blind) == ()
    assert client(ONE) in seen.spoken.standing
    assert len(seen.speak(at=91.0)) == 1


def test_ec01_a_silent_cluster_gives_no_new_cause() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"), at=0.0)
    seen.see(pod(TWO, phase="Failed", terminated=True), at=0.0)
    blind = Doubt(stale=frozenset({"nodes", "pods"}), silent=frozenset({client(ONE)}))
    assert seen.reasons(at=90.0, doubt=blind) == {}


def test_ec01_silence_about_pods_leaves_the_word_about_nodes() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"), at=0.0)
    assert seen.reasons(at=30.0, doubt=Doubt(stale=frozenset({"pods"}))) == {ONE: "node_not_ready"}


def test_ec54_whoever_was_asked_to_go_while_its_node_was_well_left_as_planned() -> None:
    for cause in ("deleted", "preempted", "evicted", "tainted", "shutdown"):
        seen = Seen()
        seen.see(pod(ONE, terminating=True, cause=cause))
        assert ONE.pod_uid in seen.view.planned


def test_ec54_nothing_is_planned_about_what_a_failed_node_takes_along() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"))
    seen.see(pod(ONE, terminating=True, cause="tainted"))
    seen.see(pod(TWO, terminating=True, cause="orphaned"))
    assert seen.view.planned == set()


def test_ec54_clearing_away_what_has_failed_does_not_make_the_failure_planned() -> None:
    seen = Seen()
    seen.see(pod(ONE, phase="Failed", terminated=True))
    seen.see(pod(ONE, phase="Failed", terminated=True, terminating=True, cause="deleted"))
    assert seen.view.planned == set()


def test_deleted_pods_are_not_remembered_for_ever() -> None:
    seen = Seen()
    for index in range(REMEMBERED_LIMIT + 3):
        seen.see(pod(member(index + 10)), deleted=True)
    assert len(seen.view.deleted_pods) == REMEMBERED_LIMIT
    assert member(10).pod_uid not in seen.view.deleted_pods
