"""Metrics of the node watcher."""

from typing import Final, Literal, get_args

from everstep_contract.facts.member import SuspicionReason
from everstep_runtime.metrics import counter, gauge, stage_seconds
from prometheus_client import Counter, Gauge

FactOutcome = Literal["published", "unanswered", "stale", "overflowed"]

SUSPICIONS: Final = counter(
    "everstep_node_watcher_suspicions_total",
    "First suspicions of members, by reason.",
    "reason",
    get_args(SuspicionReason),
)
FACTS: Final = counter(
    "everstep_node_watcher_facts_total",
    "Facts, by what became of the attempt to publish them.",
    "outcome",
    get_args(FactOutcome),
)
BLIND: Final = Gauge(
    "everstep_node_watcher_blind", "1 while canaries are silent and nothing is concluded."
)
SILENT: Final = Gauge("everstep_node_watcher_silent_members", "Members with a standing suspicion.")
GOODBYES: Final = Counter(
    "everstep_node_watcher_goodbyes_total", "Members that ended on their own account."
)
CLUSTER_STALE: Final = gauge(
    "everstep_node_watcher_cluster_stale",
    "1 while the cluster has been silent for too long: its word on this kind is unknown.",
    "plural",
    ("pods", "nodes", "jobs"),
)
NODE_FLAPS: Final = Counter(
    "everstep_node_watcher_node_flaps_total",
    "Times that a node was Ready again before its trouble counted.",
)
NODES_IN_TROUBLE: Final = Gauge(
    "everstep_node_watcher_nodes_in_trouble", "Nodes that are not Ready, or only just again."
)
STAGES: Final = stage_seconds("node_watcher", ("noticed",))
