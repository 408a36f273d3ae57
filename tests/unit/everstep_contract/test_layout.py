"""Streams and buckets as data."""

from everstep_bus.memory.filters import admits
from everstep_contract import subjects
from everstep_contract.layout import (
    ALL_STREAMS,
    BUCKETS,
    ORDERS,
    STREAMS,
    bucket_stream,
    bucket_subject,
)
from support.messages import JOB, report, step_advanced


def taking(subject: str) -> list[str]:
    """The streams that store what is published there."""
    return [
        stream.name
        for stream in ALL_STREAMS
        if any(admits(wanted, subject) for wanted in stream.subjects)
    ]


def test_every_subject_is_stored_by_exactly_the_stream_that_is_meant() -> None:
    telemetry = subjects.telemetry_subject(JOB, report(0, 1).member.incarnation)
    assert taking(subjects.event_subject(step_advanced(1))) == ["EVENTS"]
    assert taking(telemetry) == ["TELEMETRY"]
    assert taking(subjects.order_subject(JOB)) == ["ORDERS"]
    assert taking(subjects.dead_subject(telemetry)) == ["DEAD"]
    assert taking("everstep.rpc.v1.adjudicator.job_status") == []


def test_a_repeated_order_is_stored_by_no_stream_or_it_would_be_repeated_for_ever() -> None:
    assert ORDERS.repeated_to == subjects.POSTED_ORDERS
    assert taking(subjects.posted_order_subject(JOB)) == []


def test_each_bucket_keeps_the_newest_value_of_a_key_in_a_stream_of_its_own() -> None:
    for bucket in BUCKETS:
        assert taking(bucket_subject(bucket, JOB.token)) == [bucket_stream(bucket).name]
        assert bucket_stream(bucket).max_messages_per_subject == 1


def test_names_are_unique() -> None:
    assert len({stream.name for stream in ALL_STREAMS}) == len(STREAMS) + len(BUCKETS)
