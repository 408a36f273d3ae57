"""What becomes of one delivery: acknowledged, tried again, or dead. The same on every bus."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from everstep_contract.base import Message
from everstep_contract.dead import DeadLetter, DeathCause
from everstep_contract.layout import Consumer

from everstep_bus.decoding import cause_of, decode_on
from everstep_bus.errors import TransientBusError, UndecodableMessageError
from everstep_bus.interface import Handler, Received
from everstep_bus.timing import retry_delay_seconds

MAX_LETTER_BYTES = 64 * 1024
MAX_REASON_LETTERS = 2000


@dataclass(frozen=True)
class Delivery:
    """A message as it came from a stream, on its ``attempt``-th delivery (from 1)."""

    subject: str
    headers: Mapping[str, str] | None
    payload: bytes
    sequence: int
    attempt: int = 1


@dataclass(frozen=True)
class Done:
    """The effect has happened: acknowledge."""


@dataclass(frozen=True)
class Again:
    """Deliver once more after a while."""

    delay_seconds: float


@dataclass(frozen=True)
class Dead:
    """Publish the letter, and only then give the message up."""

    letter: DeadLetter


Outcome = Done | Again | Dead


async def handle(
    delivery: Delivery, consumer: Consumer, handler: Handler, now: Callable[[], datetime]
) -> Outcome:
    """Decode and handle one delivery; says what to do with the message, and does none of it."""

    def dead(cause: DeathCause, reason: str) -> Dead:
        return Dead(dead_letter(delivery, consumer.name, cause, reason, now()))

    if delivery.attempt > consumer.max_deliveries:
        return dead("deliveries_exhausted", "its handler did not finish on any delivery")
    try:
        received = received_of(delivery)
    except UndecodableMessageError as error:
        return dead("undecodable", str(error))
    try:
        await handler(received)
    except TransientBusError as error:
        if delivery.attempt >= consumer.max_deliveries:
            return dead("deliveries_exhausted", str(error))
        return Again(retry_delay_seconds(delivery.attempt))
    except Exception as error:  # noqa: BLE001  # whatever it is, the message and its reason survive
        return dead("rejected", f"{type(error).__name__}: {error}")
    return Done()


def received_of(delivery: Delivery) -> Received:
    """What a handler is given.

    Raises:
        UndecodableMessageError: No message is written like this, or not on this subject.
    """
    message = decode_on(delivery.subject, delivery.headers, delivery.payload, Message)
    cause = cause_of(delivery.headers)
    return Received(message, delivery.subject, delivery.sequence, delivery.attempt, cause)


def dead_letter(
    delivery: Delivery, consumer: str, cause: DeathCause, reason: str, at: datetime
) -> DeadLetter:
    """The letter that says why ``consumer`` could not handle the delivery."""
    return DeadLetter(
        at=at,
        subject=delivery.subject[:1000],
        consumer=consumer,
        cause=cause,
        reason=reason[:MAX_REASON_LETTERS],
        deliveries=delivery.attempt,
        payload_base64=base64.b64encode(delivery.payload[:MAX_LETTER_BYTES]).decode(),
    )


def dead_letter_id(delivery: Delivery, consumer: str) -> str:
    """The same for every try to bury this message, so that a crash in between buries it once."""
    content = delivery.subject.encode() + b"\0" + delivery.payload
    digest = hashlib.blake2b(content, digest_size=8).hexdigest()
    return f"dead/{consumer}/{delivery.sequence}/{digest}"
