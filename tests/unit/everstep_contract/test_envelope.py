"""Messages as headers and bytes."""

from datetime import UTC

import pytest
from everstep_contract.base import EXACT, Event, Message
from everstep_contract.envelope import MAX_PAYLOAD_BYTES, Cause, decode, encode
from everstep_contract.errors import InvalidPayloadError, UnknownTypeError
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberSuspected
from everstep_contract.identity import JobKey, Member
from everstep_contract.orders import Order
from everstep_contract.telemetry import MemberReport, WorkerReport
from hypothesis import given
from hypothesis import strategies as st

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)
counts = st.integers(0, EXACT)
seconds = st.floats(0, 1e9, allow_nan=False, allow_infinity=False)
instants = st.datetimes(timezones=st.just(UTC))
jobs = st.builds(JobKey, namespace=names, name=names)
members = st.builds(Member, job_uid=names, name=names, pod_uid=names, incarnation=names, node=names)
workers = st.builds(
    WorkerReport,
    local_rank=counts,
    pid=counts,
    version=st.integers(-1, 10**9),
    step_begun=counts,
    phase=st.text(st.characters(exclude_categories=["Cs"]), max_size=64),
)


def varied(message_type: str, **fields: st.SearchStrategy[object]) -> st.SearchStrategy[Message]:
    """The example of a type with some of its fields drawn."""
    example = EXAMPLES[message_type]
    drawn = st.fixed_dictionaries(fields)
    return drawn.map(lambda update: type(example).model_validate({**dict(example), **update}))


messages = st.one_of(
    varied(StepAdvanced.TYPE, at=instants, job=jobs, member=members, step=counts),
    varied(MemberSuspected.TYPE, at=instants, witness=names, silence_seconds=seconds),
    varied(MemberReport.TYPE, job=jobs, member=members, workers=st.lists(workers, max_size=8)),
    varied(Order.TYPE, job=jobs, verdict_id=names, generation=counts),
)


@given(messages)
def test_every_message_comes_back_from_the_wire(message: Message) -> None:
    assert decode(*encode(message, source="agent")) == message


@pytest.mark.parametrize("message", EXAMPLES.values(), ids=EXAMPLES)
def test_every_example_comes_back_from_the_wire(message: Message) -> None:
    headers, payload = encode(message, source="agent")
    assert decode(headers, payload) == message
    assert headers["ce-type"] == message.TYPE
    assert ("Nats-Msg-Id" in headers) == isinstance(message, Event)


@given(messages)
def test_the_same_fact_has_the_same_id_whoever_publishes_it(message: Message) -> None:
    one, _ = encode(message, source="one")
    other, _ = encode(message, source="other")
    assert one.get("Nats-Msg-Id") == other.get("Nats-Msg-Id")


def test_the_cause_travels_in_the_headers() -> None:
    message = EXAMPLES[StepAdvanced.TYPE]
    headers, _ = encode(message, source="agent", cause=Cause("incident-1", "event-1"))
    assert headers["ce-correlationid"] == "incident-1"
    assert headers["ce-causationid"] == "event-1"
    plain, _ = encode(message, source="agent", cause=Cause())
    assert not {"ce-correlationid", "ce-causationid"} & set(plain)


def test_unknown_fields_are_ignored_so_that_v1_may_grow() -> None:
    message = EXAMPLES[StepAdvanced.TYPE]
    headers, payload = encode(message, source="agent")
    assert decode(headers, payload[:-1] + b',"news":1}') == message


@pytest.mark.parametrize("headers", [None, {}, {"ce-type": ""}, {"ce-type": "everstep.x.y.v9"}])
def test_a_payload_without_a_known_type_is_refused(headers: dict[str, str] | None) -> None:
    with pytest.raises(UnknownTypeError):
        decode(headers, b"{}")


@given(st.binary(max_size=200))
def test_whatever_bytes_come_they_are_refused_by_name(payload: bytes) -> None:
    with pytest.raises(InvalidPayloadError, match="does not fit"):
        decode({"ce-type": StepAdvanced.TYPE}, payload)


def test_a_payload_beyond_the_bound_is_neither_sent_nor_read() -> None:
    example = EXAMPLES[Order.TYPE]
    assert isinstance(example, Order)
    huge = example.model_copy(update={"seats": example.seats * 1000})
    with pytest.raises(InvalidPayloadError, match="bytes"):
        encode(huge, source="rescaler")
    with pytest.raises(InvalidPayloadError, match="bytes"):
        decode({"ce-type": Order.TYPE}, b" " * (MAX_PAYLOAD_BYTES + 1))


def test_a_number_that_is_none_is_refused() -> None:
    payload = encode(EXAMPLES[StepAdvanced.TYPE], source="agent")[1]
    broken = payload.replace(b'"step_seconds":', b'"step_seconds":"x",":":')
    with pytest.raises(InvalidPayloadError, match="step_seconds"):
        decode({"ce-type": StepAdvanced.TYPE}, broken)


@pytest.mark.parametrize("beyond", [EXACT + 1, 2**63, 10**30])
def test_a_number_that_json_readers_tell_differently_is_no_generation(beyond: int) -> None:
    order = EXAMPLES[Order.TYPE]
    headers, payload = encode(order, source="test")
    assert isinstance(order, Order)
    forged = payload.replace(
        f'"generation":{order.generation}'.encode(), f'"generation":{beyond}'.encode(), 1
    )
    assert forged != payload
    with pytest.raises(InvalidPayloadError, match="generation"):
        decode(headers, forged)
