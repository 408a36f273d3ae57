"""Decode what came from the wire, and refuse what its subject does not allow to be said.

Permissions bind a role to subjects, not to payloads: a message about one job on the subject of
another would get around them, so it counts as undecodable.
"""

from collections.abc import Mapping
from typing import TypeVar

from everstep_contract import subjects
from everstep_contract.base import Event, Message, Model
from everstep_contract.envelope import MAX_PAYLOAD_BYTES, Cause, decode
from everstep_contract.errors import ContractError
from everstep_contract.orders import Order
from everstep_contract.queries import Query
from everstep_contract.telemetry import MemberReport
from pydantic import ValidationError

from everstep_bus.errors import UndecodableMessageError

X = TypeVar("X", bound=Message)
V = TypeVar("V", bound=Model)


def subject_of(message: Message) -> str | None:
    """The one subject on which this message belongs; None for kinds that have none."""
    match message:
        case Event():
            return subjects.event_subject(message)
        case MemberReport():
            return subjects.telemetry_subject(message.job, message.member.incarnation)
        case Order():
            return subjects.order_subject(message.job)
        case Query():
            return subjects.query_subject(message)
        case _:
            return None


def decode_on(
    subject: str, headers: Mapping[str, str] | None, payload: bytes, expected: type[X]
) -> X:
    """The message of kind ``expected`` that was received on ``subject``.

    Raises:
        UndecodableMessageError: It is no such message, or does not belong on the subject.
    """
    try:
        message = decode(headers, payload)
        home = subject_of(message)
    except ContractError as error:
        raise UndecodableMessageError(subject=subject, reason=str(error)) from error
    if not isinstance(message, expected):
        reason = f"{type(message).TYPE!r} is not expected here"
        raise UndecodableMessageError(subject=subject, reason=reason)
    if home not in (None, subject):
        raise UndecodableMessageError(subject=subject, reason=f"it belongs on {home!r}")
    return message


def decode_value(key: str, payload: bytes, model: type[V]) -> V:
    """The value that lies under ``key`` of a bucket.

    Raises:
        UndecodableMessageError: The payload does not fit the bucket's model.
    """
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise UndecodableMessageError(subject=key, reason=f"{len(payload)} bytes")
    try:
        return model.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UndecodableMessageError(subject=key, reason=f"{where}: {first['msg']}") from error


def cause_of(headers: Mapping[str, str] | None) -> Cause:
    """Why the message was sent, as its headers say."""
    told = headers or {}
    return Cause(told.get("ce-correlationid"), told.get("ce-causationid"))
