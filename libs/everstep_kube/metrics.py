"""Metrics of watching and writing the cluster."""

from typing import Final, Literal, get_args

from everstep_runtime.metrics import counter, gauge

ReconnectReason = Literal["gone", "read_timeout", "no_answer", "refused"]
PLURALS: Final = ("pods", "nodes", "jobs")

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
    PLURALS,
)
SILENT: Final = gauge(
    "everstep_kube_silent_seconds",
    "Seconds since the API server last proved that it still tells us of this kind of object.",
    "plural",
    PLURALS,
)
WENT_BACK: Final = counter(
    "everstep_kube_store_went_back_total",
    "Times the cluster's store had a lower version than before, as a restored backup has.",
    "plural",
    PLURALS,
)
UNREADABLE: Final = counter(
    "everstep_kube_unreadable_objects_total",
    "Objects passed over because they are not built as objects of their kind are.",
    "plural",
    PLURALS,
)
