"""What the cluster's word becomes as facts: each new thing once, its last state always."""

from typing import Any

from everstep_contract.base import Event
from everstep_contract.facts.job import JobObserved, PodObserved
from everstep_contract.facts.node import NodeObserved
from everstep_kube.objects import node_state
from everstep_node_watcher.cluster_facts import fact
from everstep_node_watcher.cluster_telling import Telling
from everstep_node_watcher.cluster_view import State
from everstep_runtime.clock import Moment
from support.cluster_states import job, node, pod
from support.jobs import NOW, member

ONE = member(1)
PAUSE_SECONDS = 10.0


class Told:
    """One object's states as they come, and which of them are told."""

    def __init__(self) -> None:
        self.telling = Telling(PAUSE_SECONDS)
        self.before: State | None = None

    def hear(self, state: State, *, at: float, room: bool = True) -> bool:
        before, self.before = self.before, state
        return self.telling.news(before, state, at, room=room)

    def wait(self, until: float) -> State | None:
        """What is told by then without anything new; the object has only one key."""
        assert self.before is not None
        due = self.telling.due(until, limit=10)
        return self.before if due and self.telling.is_news(self.before, until) else None


def told_of(state: State) -> Event:
    return fact(state, Moment(NOW, 0.0))


def test_each_kind_of_object_is_told_as_its_fact() -> None:
    assert isinstance(told_of(pod(ONE)), PodObserved)
    assert isinstance(told_of(node("another")), NodeObserved)
    assert isinstance(told_of(job()), JobObserved)


def test_a_change_of_what_nobody_asked_for_is_no_fact() -> None:
    told = Told()
    assert told.hear(pod(ONE), at=0.0)
    assert not told.hear(pod(ONE, resource_version="2"), at=60.0)
    assert told.wait(120.0) is None


def test_ec52_a_flapping_node_is_told_of_at_a_bounded_rate() -> None:
    told = Told()
    facts = 0
    for second in range(100):
        facts += told.hear(node("n", ready="False" if second % 2 else "True"), at=second)
        facts += told.wait(second + 0.5) is not None
    assert 8 <= facts <= 11


def test_ec52_the_last_state_is_told_however_fast_it_came() -> None:
    told = Told()
    assert told.hear(node("n"), at=0.0)
    assert not told.hear(node("n", ready="False"), at=1.0)
    assert told.wait(9.0) is None
    assert told.wait(11.0) == node("n", ready="False")


def test_ec52_a_flap_that_is_over_before_it_could_be_told_is_no_fact() -> None:
    told = Told()
    assert told.hear(node("n"), at=0.0)
    assert not told.hear(node("n", ready="False"), at=1.0)
    assert not told.hear(node("n"), at=2.0)
    assert told.wait(11.0) is None


def test_what_others_act_on_is_told_at_once() -> None:
    taint = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
    urgent: tuple[dict[str, Any], ...] = ({"taints": (taint,)}, {"boot_id": "2"}, {"uid": "2"})
    for change in urgent:
        told = Told()
        told.hear(node("n", uid="1"), at=0.0)
        assert told.hear(node("n", **{"uid": "1", **change}), at=0.1, room=False)


def test_the_ends_of_a_pod_are_told_at_once() -> None:
    told = Told()
    told.hear(pod(ONE), at=0.0)
    assert told.hear(pod(ONE, terminating=True, cause="evicted"), at=0.1, room=False)
    assert told.hear(pod(ONE, terminating=True, terminated=True, phase="Failed"), at=0.2)


def test_what_finds_no_room_is_told_later_as_it_is_then() -> None:
    told = Told()
    assert not told.hear(node("n"), at=0.0, room=False)
    assert not told.hear(node("n", unschedulable=True), at=0.1, room=False)
    assert told.wait(0.2) == node("n", unschedulable=True)


def test_a_quiet_object_is_not_remembered() -> None:
    told = Told()
    told.hear(node("n"), at=0.0)
    assert told.telling.remembered == 1
    told.telling.tidy(PAUSE_SECONDS + 1.0)
    assert told.telling.remembered == 0


def test_ec34_a_cordon_is_told_with_whose_it_is() -> None:
    theirs, ours = told_of(node("n", unschedulable=True)), node("n", unschedulable=True)
    assert isinstance(theirs, NodeObserved)
    assert (theirs.cordoned, theirs.cordoned_by) == (True, "")
    by_us = told_of(node("n", unschedulable=True, cordoned_by="incident-1"))
    assert isinstance(by_us, NodeObserved)
    assert by_us.cordoned_by == "incident-1"
    assert told_of(ours) == theirs


def test_ec53_conditions_and_taints_are_told_with_what_they_mean() -> None:
    state = node_state(
        {
            "metadata": {"name": "n", "resourceVersion": "1"},
            "spec": {
                "taints": [
                    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
                    {
                        "key": "ToBeDeletedByClusterAutoscaler",
                        "value": "17",
                        "effect": "NoSchedule",
                    },
                ]
            },
            "status": {
                "conditions": [
                    {"type": "SomeVendorsOwn", "status": "True", "reason": "Why"},
                    {"type": "Ready", "status": "False", "reason": "KubeletNotReady"},
                    {"type": "MemoryPressure", "status": "True", "reason": "KubeletHasNoMemory"},
                    {"type": "GpuXidError", "status": "True", "reason": "79"},
                ]
            },
        }
    )
    told = told_of(state)
    assert isinstance(told, NodeObserved)
    assert [(one.type, one.meaning) for one in told.conditions] == [
        ("GpuXidError", "hardware"), ("MemoryPressure", "pressure"), ("SomeVendorsOwn", "unjudged"),
    ]  # fmt: skip
    assert told.leaving == "ToBeDeletedByClusterAutoscaler=17:NoSchedule"
    assert told.ready_reason == "KubeletNotReady"
