"""What the cluster's word becomes: facts when something is new, causes while trouble stands."""

from dataclasses import replace

from everstep_contract.base import Event
from everstep_contract.facts.job import JobObserved, PodObserved
from everstep_contract.facts.node import NodeObserved
from everstep_contract.identity import Member
from everstep_node_watcher.cluster_decide import (
    DELETED_PODS_LIMIT,
    ClusterView,
    State,
    causes,
    observe,
    seated,
)
from everstep_runtime.clock import Moment
from support.cluster_states import job, node, pod
from support.connections import client
from support.jobs import JOB, NOW, member, record

ONE, TWO = member(1), member(2)


class Seen:
    """A cluster watched from the start, with members 1 and 2 seated."""

    def __init__(self) -> None:
        self.view = seated(ClusterView(), JOB, record(1, (ONE, TWO)))
        for each in (ONE, TWO):
            self.see(pod(each))
            self.see(node(each.node))

    def see(self, state: State, *, at: float = 0.0, deleted: bool = False) -> Event | None:
        self.view, fact = observe(self.view, state, Moment(NOW, at), deleted=deleted)
        return fact

    def reasons(self) -> dict[Member, str]:
        found = causes(self.view)
        return {m: found[client(m)].reason for m in (ONE, TWO) if client(m) in found}


def test_each_kind_of_object_is_told_as_its_fact() -> None:
    seen = Seen()
    assert isinstance(seen.see(pod(member(3))), PodObserved)
    assert isinstance(seen.see(node("another")), NodeObserved)
    assert isinstance(seen.see(job()), JobObserved)


def test_a_change_of_what_nobody_asked_for_is_no_fact() -> None:
    seen = Seen()
    assert seen.see(pod(ONE, resource_version="2")) is None
    assert seen.see(node(ONE.node, resource_version="2", unschedulable=True)) is None


def test_a_terminated_pod_gives_cause_to_suspect_its_member() -> None:
    seen = Seen()
    fact = seen.see(pod(ONE, phase="Failed", terminated=True), at=7.0)
    assert isinstance(fact, PodObserved)
    assert seen.reasons() == {ONE: "pod_terminated"}
    assert causes(seen.view)[client(ONE)].since == 7.0


def test_a_deleted_pod_gives_cause_though_its_name_is_used_again() -> None:
    seen = Seen()
    fact = seen.see(pod(ONE), deleted=True)
    assert isinstance(fact, PodObserved)
    assert fact.deleted
    seen.see(pod(member(1, life=2)))
    assert seen.reasons() == {ONE: "pod_deleted"}


def test_a_pod_that_is_only_terminating_is_not_suspected() -> None:
    seen = Seen()
    assert seen.see(pod(ONE, terminating=True)) is not None
    assert seen.reasons() == {}


def test_r11_a_node_that_is_not_ready_or_unknown_gives_cause_while_it_is() -> None:
    seen = Seen()
    for trouble in ("False", "Unknown"):
        seen.see(node(ONE.node, ready=trouble))
        assert seen.reasons() == {ONE: "node_not_ready"}
    seen.see(node(ONE.node))
    assert seen.reasons() == {}


def test_a_deleted_node_gives_cause() -> None:
    seen = Seen()
    seen.see(node(ONE.node), deleted=True)
    assert seen.reasons() == {ONE: "node_not_ready"}


def test_the_cause_of_a_flapping_node_is_dated_from_its_newest_trouble() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"), at=1.0)
    seen.see(node(ONE.node), at=2.0)
    seen.see(node(ONE.node, ready="False"), at=3.0)
    assert causes(seen.view)[client(ONE)].since == 3.0


def test_only_seated_members_are_suspected() -> None:
    seen = Seen()
    seen.see(node(ONE.node, ready="Unknown"))
    seen.view = seated(seen.view, JOB, record(2, (TWO,)))
    assert seen.reasons() == {}
    seen.view = seated(seen.view, JOB, record(3, (ONE, TWO), phase="ended", state="stop"))
    assert seen.reasons() == {}


def test_deleted_pods_are_not_remembered_for_ever() -> None:
    view = ClusterView()
    for index in range(DELETED_PODS_LIMIT + 3):
        state = replace(pod(ONE), uid=f"pod-{index}")
        view, _ = observe(view, state, Moment(NOW, 0.0), deleted=True)
    assert len(view.deleted_pods) == DELETED_PODS_LIMIT
    assert "pod-0" not in view.deleted_pods
