"""Metrics of watching and writing the cluster."""

from typing import Final, Literal, get_args

from everstep_runtime.metrics import counter

ReconnectReason = Literal["gone", "no_answer", "refused"]

RECONNECTS: Final = counter(
    "everstep_kube_watch_reconnects_total",
    "Watches that ended other than cleanly, by reason.",
    "reason",
    get_args(ReconnectReason),
)
LISTS: Final = counter(
    "everstep_kube_lists_total",
    "Lists taken, by kind of object.",
    "plural",
    ("pods", "nodes", "jobs"),
)
