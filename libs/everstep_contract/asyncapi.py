"""The AsyncAPI 3.0 document of the bus: channels, operations and messages, from the models."""

from typing import Any, Final

from everstep_contract import subjects
from everstep_contract.base import Event, Message
from everstep_contract.catalog import EVENTS, MESSAGES, QUERIES
from everstep_contract.dead import DeadLetter
from everstep_contract.facts.node import NodeEvent
from everstep_contract.orders import Order
from everstep_contract.queries import Query, Refused, Reply
from everstep_contract.telemetry import MemberReport

Json = dict[str, Any]

_SCHEMA_FORMAT: Final = "application/schema+json;version=draft-07"
_PARAMETERS: Final = {
    "node": "Name of a node, encoded.",
    "namespace": "Namespace of a job, encoded.",
    "job": "Name of a job, encoded.",
    "id": "Which one of its entities the fact is about, encoded.",
    "incarnation": "One life of one agent, encoded.",
    "subject": "The subject that failed, without its first token.",
}


def document(version: str) -> Json:
    """The whole document; schemas are referred to beside it, under ``schemas/v1``."""
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Everstep",
            "version": version,
            "description": (
                "What agents, services, people and tools say to each other over NATS. Names in "
                "subjects are encoded: every byte outside [A-Za-z0-9_-] becomes =XX."
            ),
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": {_key(message): _channel(message) for message in _channel_messages()},
        "operations": {**_sends(), **_answers()},
        "components": {
            "messages": {_key(message): _message(message) for message in MESSAGES},
            "messageTraits": {"cloudEvent": {"headers": _cloud_event_headers()}},
        },
    }


def _channel_messages() -> tuple[type[Message], ...]:
    return (*EVENTS, MemberReport, Order, *QUERIES, DeadLetter)


def _sends() -> Json:
    spoken: tuple[type[Message], ...] = (*EVENTS, MemberReport, Order, DeadLetter)
    return {
        f"send{_key(message)}": {
            "action": "send",
            "channel": {"$ref": f"#/channels/{_key(message)}"},
            "messages": [{"$ref": f"#/channels/{_key(message)}/messages/{_key(message)}"}],
        }
        for message in spoken
    }


def _answers() -> Json:
    return {
        f"answer{_key(query)}": {
            "action": "receive",
            "channel": {"$ref": f"#/channels/{_key(query)}"},
            "messages": [{"$ref": f"#/channels/{_key(query)}/messages/{_key(query)}"}],
            "reply": {
                "address": {
                    "description": "The reply subject of the NATS message.",
                    "location": "$message.header#/reply",
                },
            },
        }
        for query in QUERIES
    }


def _channel(message: type[Message]) -> Json:
    address = _address(message)
    names = [part[1:-1] for part in address.split(".") if part.startswith("{")]
    spoken = [_key(message)]
    if issubclass(message, Query):
        spoken += [_key(reply) for reply in _replies(message)]
    channel: Json = {
        "address": address,
        "messages": {key: {"$ref": f"#/components/messages/{key}"} for key in spoken},
    }
    if names:
        channel["parameters"] = {name: {"description": _PARAMETERS[name]} for name in names}
    return channel


def _address(message: type[Message]) -> str:
    if issubclass(message, NodeEvent):
        return subjects.event_filter(message).replace("*", "{node}")
    if issubclass(message, Event):
        filled = subjects.event_filter(message)
        for name in ("{namespace}", "{job}", "{id}"):
            filled = filled.replace("*", name, 1)
        return filled
    if issubclass(message, Query):
        addressed = "{namespace}.{job}.{incarnation}" if "witness" in message.model_fields else ""
        return subjects.served_subject(message, addressed)
    if message is MemberReport:
        return f"{subjects.TELEMETRY}.job.{{namespace}}.{{job}}.{{incarnation}}"
    if message is Order:
        return f"{subjects.ORDERS}.job.{{namespace}}.{{job}}"
    return f"{subjects.DEAD}.{{subject}}"


def _replies(query: type[Query]) -> tuple[type[Reply], ...]:
    return (query.REPLY, Refused)


def _message(message: type[Message]) -> Json:
    return {
        "name": message.TYPE,
        "title": message.__name__,
        "summary": (message.__doc__ or "").strip().partition("\n")[0],
        "contentType": "application/json",
        "traits": [{"$ref": "#/components/messageTraits/cloudEvent"}],
        "payload": {
            "schemaFormat": _SCHEMA_FORMAT,
            "schema": {"$ref": f"./schemas/v1/{message.TYPE}.json"},
        },
    }


def _cloud_event_headers() -> Json:
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "CloudEvents 1.0, binary mode of the NATS protocol binding.",
        "required": ["ce-specversion", "ce-type", "ce-source"],
        "properties": {
            "ce-specversion": {"type": "string", "const": "1.0"},
            "ce-type": text,
            "ce-source": text,
            "ce-id": {**text, "description": "Of events: the same whoever computes it."},
            "ce-time": {**text, "format": "date-time"},
            "ce-correlationid": {**text, "description": "The incident this belongs to."},
            "ce-causationid": {**text, "description": "The event that caused this one."},
            "Nats-Msg-Id": {**text, "description": "Of events: what the stream deduplicates by."},
        },
    }


def _key(message: type[Message]) -> str:
    return message.__name__
