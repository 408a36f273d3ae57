"""Metrics of the rescaler."""

from typing import Final, Literal, get_args

from everstep_runtime.metrics import counter, stage_seconds
from prometheus_client import Counter

OrderOutcome = Literal["posted", "lost_race", "contradicted", "unanswered"]

ORDERS: Final = counter(
    "everstep_rescaler_orders_total",
    "Orders by what became of the attempt to post them.",
    "outcome",
    get_args(OrderOutcome),
)
WRITES: Final = Counter(
    "everstep_rescaler_cluster_writes_total",
    "Changes to the cluster, by what they are and what became of them.",
    ["verb", "outcome"],
)
_ON_JOBS: Final = ("annotate", "rescale")
_ON_PODS: Final = ("delete_pod", "force_delete_pod", "evict")
for _verb in ("cordon", "taint", "release", *_ON_PODS, *_ON_JOBS):
    for _outcome in ("done", "already", "refused"):
        WRITES.labels(_verb, _outcome)
EVENTS_SAID: Final = counter(
    "everstep_rescaler_kubernetes_events_total",
    "Kubernetes Events by what became of them.",
    "outcome",
    ("made", "refused", "dropped"),
)
STAGES: Final = stage_seconds("rescaler", ("ordered",))
