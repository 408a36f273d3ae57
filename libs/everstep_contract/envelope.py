"""JSON payloads under CloudEvents 1.0 binary-mode headers (NATS protocol binding)."""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from everstep_contract.base import Event, Message
from everstep_contract.catalog import message_class
from everstep_contract.errors import InvalidPayloadError, UnknownTypeError

MAX_PAYLOAD_BYTES = 512 * 1024
"""Half of nats-server's default limit of 1 MiB: a bound that we meet before the server does."""


@dataclass(frozen=True)
class Cause:
    """Why a message was sent: the incident it belongs to and the event that led to it."""

    correlation_id: str | None = None
    causation_id: str | None = None


def encode(
    message: Message, *, source: str, cause: Cause | None = None
) -> tuple[dict[str, str], bytes]:
    """Headers and payload of a message. Only events carry an id that the server deduplicates by."""
    headers = {
        "ce-specversion": "1.0",
        "ce-type": message.TYPE,
        "ce-source": f"/everstep/{source}",
        "content-type": "application/json",
    }
    if isinstance(message, Event):
        headers["ce-id"] = headers["Nats-Msg-Id"] = message.dedup_id
        headers["ce-time"] = message.at.isoformat()
    if cause and cause.correlation_id:
        headers["ce-correlationid"] = cause.correlation_id
    if cause and cause.causation_id:
        headers["ce-causationid"] = cause.causation_id
    payload = message.model_dump_json().encode()
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidPayloadError(message.TYPE, f"{len(payload)} bytes > {MAX_PAYLOAD_BYTES}")
    return headers, payload


def decode(headers: Mapping[str, str] | None, payload: bytes) -> Message:
    """The message that `encode` made.

    Raises:
        UnknownTypeError: No ``ce-type`` header, or none that this version knows.
        InvalidPayloadError: The payload does not fit it.
    """
    message_type = (headers or {}).get("ce-type", "")
    if not message_type:
        raise UnknownTypeError("")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidPayloadError(message_type, f"{len(payload)} bytes > {MAX_PAYLOAD_BYTES}")
    model = message_class(message_type)
    try:
        return model.model_validate_json(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InvalidPayloadError(message_type, f"{where}: {first['msg']}") from error
