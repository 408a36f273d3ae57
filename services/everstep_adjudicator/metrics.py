"""Metrics of the adjudicator."""

from typing import Final, get_args

from everstep_contract.record import Outcome
from everstep_contract.verdicts import VerdictKind
from everstep_runtime.metrics import counter, latency_seconds, stage_seconds
from prometheus_client import Counter

VERDICTS: Final = counter(
    "everstep_adjudicator_verdicts_total", "Verdicts, by kind.", "verdict", get_args(VerdictKind)
)
INCIDENTS: Final = counter(
    "everstep_adjudicator_incidents_total",
    "Incidents that ended, by how.",
    "outcome",
    get_args(Outcome),
)
WRITES: Final = counter(
    "everstep_adjudicator_writes_total",
    "Attempts to write a job's record, by what became of them.",
    "outcome",
    ("written", "lost_race", "unanswered"),
)
PROBES: Final = counter(
    "everstep_adjudicator_probes_total",
    "Indirect probes, by what the witness found.",
    "outcome",
    ("alive", "refused", "silent", "other_incarnation", "no_answer"),
)
BROKEN: Final = Counter(
    "everstep_adjudicator_failed_decisions_total", "Decisions that ended in an error of ours."
)
STAGES: Final = stage_seconds(
    "adjudicator",
    ("confirmed", "decided", "ordered", "left_old_group", "agreed", "first_new_step"),
)
DECIDING: Final = latency_seconds(
    "everstep_adjudicator_deciding_seconds", "From hearing a fact to having enacted what follows."
)
