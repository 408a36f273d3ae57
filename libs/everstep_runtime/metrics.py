"""Metrics with labels from closed sets, every label value initialised to zero."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Final, Literal

from everstep_bus.counts import BusCounts
from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

Stage = Literal[
    "noticed", "confirmed", "decided", "ordered", "left_old_group", "agreed", "first_new_step"
]
"""Stages of the loop, under the same names in every service."""

LATENCY_BUCKETS_SECONDS: Final = (
    *(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
    *(0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0),
)


def counter(name: str, documentation: str, label: str, values: Sequence[str]) -> Counter:
    """A counter by one label, present at zero for each of its values from the start."""
    made = Counter(name, documentation, [label])
    for value in values:
        made.labels(value)
    return made


def gauge(name: str, documentation: str, label: str, values: Sequence[str]) -> Gauge:
    """A gauge by one label, present at zero for each of its values from the start."""
    made = Gauge(name, documentation, [label])
    for value in values:
        made.labels(value)
    return made


def stage_seconds(service: str, stages: Sequence[Stage]) -> Histogram:
    """How long each stage took that ``service`` brings about, since the one before it."""
    made = Histogram(
        f"everstep_{service}_stage_seconds",
        "Seconds from the previous stage of the loop to this one.",
        ["stage"],
        buckets=LATENCY_BUCKETS_SECONDS,
    )
    for stage in stages:
        made.labels(stage)
    return made


def latency_seconds(name: str, documentation: str) -> Histogram:
    """A histogram of durations in seconds, without labels."""
    return Histogram(name, documentation, buckets=LATENCY_BUCKETS_SECONDS)


@contextmanager
def exported(counts: BusCounts) -> Iterator[None]:
    """Export a connection's counts as ``everstep_bus_<what>_total`` while the context is open."""
    collector = _BusCollector(counts)
    REGISTRY.register(collector)
    try:
        yield
    finally:
        REGISTRY.unregister(collector)


class _BusCollector(Collector):
    def __init__(self, counts: BusCounts) -> None:
        self._counts = counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        for what, count in asdict(self._counts).items():
            documentation = f"The bus connection's {what.replace('_', ' ')}."
            yield CounterMetricFamily(f"everstep_bus_{what}", documentation, value=count)
