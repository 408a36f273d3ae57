"""What is refused on a subject although it can be read."""

import pytest
from everstep_bus.decoding import decode_on, decode_value
from everstep_bus.errors import UndecodableMessageError
from everstep_contract import subjects
from everstep_contract.base import Event, Message
from everstep_contract.envelope import MAX_PAYLOAD_BYTES, encode
from everstep_contract.orders import Order
from everstep_contract.record import JobRecord
from support.messages import JOB, OTHER_JOB, order, probe, record, report, step_advanced

MESSAGES: list[tuple[Message, Message, str]] = [
    (
        step_advanced(1),
        step_advanced(1, OTHER_JOB),
        subjects.event_subject(step_advanced(1)),
    ),
    (
        report(0, 1),
        report(1, 1),
        subjects.telemetry_subject(JOB, report(0, 1).member.incarnation),
    ),
    (order(1), order(1, job=OTHER_JOB), subjects.order_subject(JOB)),
    (probe(), probe(witness=2), subjects.query_subject(probe())),
]


@pytest.mark.parametrize(("right", "wrong", "subject"), MESSAGES)
def test_a_message_counts_only_on_the_subject_where_it_belongs(
    right: Message, wrong: Message, subject: str
) -> None:
    assert decode_on(subject, *encode(right, source="test"), Message) == right
    with pytest.raises(UndecodableMessageError, match="it belongs on"):
        decode_on(subject, *encode(wrong, source="test"), Message)


def test_a_message_of_another_kind_is_refused() -> None:
    headers, payload = encode(order(1), source="test")
    with pytest.raises(UndecodableMessageError, match="not expected here"):
        decode_on(subjects.order_subject(JOB), headers, payload, Event)
    assert decode_on(subjects.order_subject(JOB), headers, payload, Order) == order(1)


def test_a_value_is_bounded_and_must_fit_its_model() -> None:
    assert decode_value("k", record(1).model_dump_json().encode(), JobRecord) == record(1)
    with pytest.raises(UndecodableMessageError, match="generation"):
        decode_value("k", b'{"job": {"namespace": "a", "name": "b"}, "job_uid": "u"}', JobRecord)
    with pytest.raises(UndecodableMessageError, match="bytes"):
        decode_value("k", b" " * (MAX_PAYLOAD_BYTES + 1), JobRecord)
