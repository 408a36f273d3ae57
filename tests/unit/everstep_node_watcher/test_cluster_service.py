"""The cluster half as a whole, without a cluster: what it says, and when the cluster is silent."""

from datetime import UTC, datetime

from everstep_bus.memory import CALM, MemoryBroker, MemoryBus
from everstep_node_watcher.cluster_service import ClusterWatcher
from everstep_node_watcher.enact import Outbox
from everstep_node_watcher.model import Duty, Policy
from everstep_runtime.health import Readiness
from prometheus_client import REGISTRY
from support.cluster_states import node, pod
from support.connections import client
from support.jobs import JOB, NOW, member, record
from support.stepped_clock import SteppedClock

ONE = member(1)
HEARD: frozenset[str] = frozenset()
NODES_SILENT = frozenset({"nodes"})
POLICY = Policy(witness="watcher", node="here", reassert_seconds=3.0, not_ready_seconds=30.0)


class Scene:
    """A watcher that has heard of member 1, its pod and its node, and said so."""

    def __init__(self) -> None:
        self.clock = SteppedClock(NOW)
        self.duty = Duty(POLICY, self.clock, Readiness(self.clock))
        broker = MemoryBroker(CALM, now=lambda: datetime.now(UTC))
        bus = MemoryBus(broker, "everstep.node_watcher.1")
        self.outbox = Outbox(bus, self.clock, fresh_seconds=3.0)
        self.watcher = ClusterWatcher(self.duty, self.outbox)
        self.watcher.seat(JOB, record(1, (ONE,)))
        self.watcher.tick(HEARD)
        self.watcher.see(node(ONE.node), deleted=False)
        self.watcher.see(pod(ONE), deleted=False)

    def said_by(self, tick: frozenset[str], *, after_seconds: float) -> int:
        """How many facts are told when that time has passed."""
        before = self.outbox.waiting
        self.clock.step(seconds=after_seconds)
        self.watcher.tick(tick)
        self.watcher.tell_due()
        return self.outbox.waiting - before


def stale_metric() -> float | None:
    return REGISTRY.get_sample_value("everstep_node_watcher_cluster_stale", {"plural": "nodes"})


def test_a_nodes_trouble_is_told_and_then_suspected_and_then_suspected_again() -> None:
    scene = Scene()
    scene.clock.step(seconds=60)
    scene.watcher.see(node(ONE.node, ready="Unknown"), deleted=False)
    assert scene.said_by(HEARD, after_seconds=29) == 0
    assert scene.said_by(HEARD, after_seconds=1) == 1
    assert scene.said_by(HEARD, after_seconds=3) == 1


def test_ec01_nothing_is_said_while_the_cluster_is_silent_and_a_metric_says_so() -> None:
    scene = Scene()
    scene.watcher.see(node(ONE.node, ready="Unknown"), deleted=False)
    assert scene.said_by(NODES_SILENT, after_seconds=60) == 1  # the fact; no suspicion
    assert stale_metric() == 1
    assert scene.said_by(NODES_SILENT, after_seconds=60) == 0
    assert scene.said_by(HEARD, after_seconds=1) == 1
    assert stale_metric() == 0


def test_ec52_a_flap_of_a_silent_members_node_is_suspected_at_once() -> None:
    scene = Scene()
    scene.duty.silent.clients = frozenset({client(ONE)})
    scene.clock.step(seconds=60)
    scene.watcher.see(node(ONE.node, ready="False"), deleted=False)
    assert scene.said_by(HEARD, after_seconds=0.5) == 1


def test_a_node_that_was_made_anew_meanwhile_is_not_told_as_gone() -> None:
    scene = Scene()
    scene.watcher.see(node(ONE.node, uid="new"), deleted=False)
    before = scene.outbox.waiting
    scene.watcher.see(node(ONE.node, uid="old"), deleted=True)
    assert scene.outbox.waiting == before
