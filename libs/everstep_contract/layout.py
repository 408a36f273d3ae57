"""Streams, buckets and durable consumers, as data; the bus provisions them idempotently."""

from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from everstep_contract import subjects
from everstep_contract.base import Model
from everstep_contract.record import (
    CheckpointRecord,
    IncidentRecord,
    JobRecord,
    LeaseRecord,
    NodeRecord,
)

M = TypeVar("M", bound=Model)

DAY_SECONDS: Final = 24 * 3600


@dataclass(frozen=True)
class Stream:
    """One JetStream stream; bounds are defaults that a site's settings may change."""

    name: str
    subjects: tuple[str, ...]
    storage: Literal["file", "memory"]
    max_age_seconds: float
    max_bytes: int
    max_messages_per_subject: int = -1
    duplicate_window_seconds: float = 120.0
    repeated_to: str = ""
    """Prefix of the subjects on which stored messages are published once more; empty: on none."""


@dataclass(frozen=True)
class Bucket(Generic[M]):
    """One key-value bucket of values of one model."""

    name: str
    model: type[M]


@dataclass(frozen=True)
class Consumer:
    """One durable consumer of EVENTS or TELEMETRY with explicit acknowledgement.

    ``ack_wait_seconds`` is how soon what a dead process held is delivered to another; a living
    one keeps extending it. A handler that fails for now is tried ``max_deliveries`` times, by
    default for about a minute. ``from_now``: the first time ever, skip what is already stored.
    """

    name: str
    stream: Stream
    filters: tuple[str, ...]
    ack_wait_seconds: float = 3.0
    max_deliveries: int = 10
    from_now: bool = False


EVENTS: Final = Stream("EVENTS", (f"{subjects.EVENTS}.>",), "file", 30 * DAY_SECONDS, 4 << 30)
TELEMETRY: Final = Stream(
    "TELEMETRY", (f"{subjects.TELEMETRY}.>",), "memory", 3600, 256 << 20, max_messages_per_subject=1
)
ORDERS: Final = Stream(
    "ORDERS",
    (f"{subjects.ORDERS}.>",),
    "file",
    0,
    256 << 20,
    max_messages_per_subject=1,
    repeated_to=subjects.POSTED_ORDERS,
)
DEAD: Final = Stream("DEAD", (f"{subjects.DEAD}.>",), "file", 30 * DAY_SECONDS, 1 << 30)
STREAMS: Final = (EVENTS, TELEMETRY, ORDERS, DEAD)

JOBS: Final = Bucket("jobs", JobRecord)
NODES: Final = Bucket("nodes", NodeRecord)
INCIDENTS: Final = Bucket("incidents", IncidentRecord)
CHECKPOINTS: Final = Bucket("checkpoints", CheckpointRecord)
LEASES: Final = Bucket("leases", LeaseRecord)
BUCKETS: Final = (JOBS, NODES, INCIDENTS, CHECKPOINTS, LEASES)


def bucket_stream(bucket: Bucket[Any]) -> Stream:
    """The stream a bucket is kept in, laid out as every NATS client expects it."""
    return Stream(
        name=f"KV_{bucket.name}",
        subjects=(bucket_subject(bucket, ">"),),
        storage="file",
        max_age_seconds=0,
        max_bytes=256 << 20,
        max_messages_per_subject=1,
    )


def bucket_subject(bucket: Bucket[Any], key: str) -> str:
    """Where a key's values are kept; the key ``>`` admits all."""
    return f"$KV.{bucket.name}.{key}"


ALL_STREAMS: Final = (*STREAMS, *(bucket_stream(bucket) for bucket in BUCKETS))
"""Streams and what buckets are kept in: all that is provisioned."""
