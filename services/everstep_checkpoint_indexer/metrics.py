"""Metrics of the checkpoint indexer."""

from typing import Final, Literal, get_args

from everstep_contract.facts.checkpoint import SaveTrouble
from everstep_runtime.metrics import counter
from prometheus_client import Counter, Gauge

CheckpointOutcome = Literal["committed", "already", "void", "incomplete", "gone", "postponed"]

CHECKPOINTS: Final = counter(
    "everstep_checkpoint_indexer_checkpoints_total",
    "Complete checkpoints, by what became of them.",
    "outcome",
    get_args(CheckpointOutcome),
)
PENDING: Final = Gauge(
    "everstep_checkpoint_indexer_pending_checkpoints", "Checkpoints that lack shards."
)
READ_BACK: Final = counter(
    "everstep_checkpoint_indexer_read_back_total",
    "Committed checkpoints read back, by what was found.",
    "outcome",
    ("whole", "damaged"),
)
DAMAGE: Final = Counter(
    "everstep_checkpoint_indexer_damage_reports_total",
    "Checkpoints in which a worker found damage when it was to load them.",
)
FAILED_SAVES: Final = counter(
    "everstep_checkpoint_indexer_failed_saves_total",
    "Shards that could not be written, by why.",
    "trouble",
    get_args(SaveTrouble),
)
PRUNED: Final = Counter("everstep_checkpoint_indexer_pruned_total", "Checkpoints deleted.")
PRUNED_BYTES: Final = Counter(
    "everstep_checkpoint_indexer_pruned_bytes_total", "Bytes of the checkpoints deleted."
)
COLLECTED: Final = Counter(
    "everstep_checkpoint_indexer_collected_attempts_total", "Abandoned attempts deleted."
)
