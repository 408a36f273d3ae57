"""Metrics of the checkpoint indexer."""

from typing import Final, Literal, get_args

from everstep_runtime.metrics import counter
from prometheus_client import Gauge

CheckpointOutcome = Literal["committed", "already", "void", "incomplete", "damaged"]

CHECKPOINTS: Final = counter(
    "everstep_checkpoint_indexer_checkpoints_total",
    "Complete checkpoints, by what became of them.",
    "outcome",
    get_args(CheckpointOutcome),
)
PENDING: Final = Gauge(
    "everstep_checkpoint_indexer_pending_checkpoints", "Checkpoints that lack shards."
)
