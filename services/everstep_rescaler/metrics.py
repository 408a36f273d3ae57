"""Metrics of the rescaler."""

from typing import Final, Literal, get_args

from everstep_runtime.metrics import counter, stage_seconds

OrderOutcome = Literal["posted", "lost_race", "contradicted", "unanswered"]

ORDERS: Final = counter(
    "everstep_rescaler_orders_total",
    "Orders by what became of the attempt to post them.",
    "outcome",
    get_args(OrderOutcome),
)
STAGES: Final = stage_seconds("rescaler", ("ordered",))
