"""What becomes of one delivery."""

from dataclasses import replace

import pytest
from everstep_bus.delivery import (
    Again,
    Dead,
    Delivery,
    Done,
    Outcome,
    dead_letter_id,
    handle,
)
from everstep_bus.errors import RevisionMismatchError, TransientBusError
from everstep_bus.interface import Received
from everstep_contract.envelope import encode
from everstep_contract.layout import EVENTS, Consumer
from everstep_contract.subjects import event_subject
from support.messages import AT, step_advanced

CONSUMER = Consumer("adjudicator", EVENTS, (">",), max_deliveries=3)


def delivery(attempt: int = 1, payload: bytes | None = None) -> Delivery:
    headers, encoded = encode(step_advanced(1), source="test")
    body = encoded if payload is None else payload
    return Delivery(event_subject(step_advanced(1)), headers, body, 17, attempt)


async def outcome(one: Delivery, failure: Exception | None = None) -> Outcome:
    async def handler(_: Received) -> None:
        if failure is not None:
            raise failure

    return await handle(one, CONSUMER, handler, lambda: AT)


async def test_what_was_handled_is_done() -> None:
    assert await outcome(delivery()) == Done()


async def test_a_transient_failure_waits_longer_each_time() -> None:
    failure = TransientBusError("not now")
    waits = [await outcome(delivery(attempt), failure) for attempt in (1, 2)]
    assert waits == [Again(0.1), Again(0.4)]


@pytest.mark.parametrize("attempt", [3, 4])
async def test_the_last_delivery_is_dead_if_it_fails_for_now(attempt: int) -> None:
    found = await outcome(delivery(attempt), TransientBusError("not now"))
    assert isinstance(found, Dead)
    assert found.letter.cause == "deliveries_exhausted"
    assert found.letter.deliveries == attempt


async def test_a_message_that_killed_its_handler_each_time_is_not_given_to_it_again() -> None:
    async def handler(_: Received) -> None:
        pytest.fail("handled once more")

    found = await handle(delivery(attempt=4), CONSUMER, handler, lambda: AT)
    assert isinstance(found, Dead)
    assert found.letter.cause == "deliveries_exhausted"


async def test_any_other_failure_is_a_rejection_with_its_reason() -> None:
    found = await outcome(delivery(), RevisionMismatchError(key="job", expected=3))
    assert isinstance(found, Dead)
    assert found.letter.cause == "rejected"
    assert found.letter.reason == "RevisionMismatchError: 'job' is not at revision 3"


async def test_a_letter_is_bounded_however_long_the_message_and_the_reason() -> None:
    found = await outcome(delivery(payload=b"x" * 500_000))
    assert isinstance(found, Dead)
    assert len(found.letter.payload_base64) < 96_000
    found = await outcome(delivery(), ValueError("y" * 10_000))
    assert isinstance(found, Dead)
    assert len(found.letter.reason) == 2000


def test_a_burial_that_is_repeated_has_the_same_id_and_another_message_has_another() -> None:
    first, again = delivery(1), delivery(2)
    other = delivery(payload=b"{}")
    elsewhere = replace(other, subject="everstep.evt.v1.elsewhere")
    assert dead_letter_id(first, "a") == dead_letter_id(again, "a")
    assert len({dead_letter_id(one, "a") for one in (first, other, elsewhere)}) == 3
    assert dead_letter_id(first, "a") != dead_letter_id(first, "b")
