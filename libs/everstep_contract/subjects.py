"""Subjects, built and parsed in this one place.

everstep.evt.v1.node.<node>.<fact>
everstep.evt.v1.job.<namespace>.<job>.<entity>.<id>.<fact>
everstep.tel.v1.job.<namespace>.<job>.<incarnation>
everstep.cmd.v1.job.<namespace>.<job>
everstep.cmd.posted.v1.job.<namespace>.<job>
everstep.rpc.v1.<service>.<query>[.<address>]
everstep.dlq.<the subject that failed, without its first token>
"""

from typing import NamedTuple

from everstep_contract.base import Event
from everstep_contract.errors import InvalidSubjectError
from everstep_contract.facts.node import NodeEvent
from everstep_contract.identity import JobKey
from everstep_contract.names import decode_name, encode_name
from everstep_contract.queries import Query

EVENTS = "everstep.evt.v1"
TELEMETRY = "everstep.tel.v1"
ORDERS = "everstep.cmd.v1"
POSTED_ORDERS = "everstep.cmd.posted.v1"
"""Where the stream repeats each order that it stored. Whoever listened where orders are published
would hear also those that the stream refused, because another one was last (R8)."""
RPC = "everstep.rpc.v1"
DEAD = "everstep.dlq"


class NodeFact(NamedTuple):
    """Parts of a node event's subject."""

    node: str
    fact: str


class JobFact(NamedTuple):
    """Parts of a job event's subject."""

    job: JobKey
    entity: str
    entity_id: str
    fact: str


def event_subject(event: Event) -> str:
    """Where an event is published."""
    _, entity, fact, _ = event.TYPE.split(".")
    if isinstance(event, NodeEvent):
        return f"{EVENTS}.node.{encode_name(event.node)}.{fact}"
    job: JobKey = event.job  # type: ignore[attr-defined]  # every other event has one (catalog test)
    return f"{EVENTS}.job.{job.token}.{entity}.{encode_name(event.entity_id)}.{fact}"


def parse_event_subject(subject: str) -> NodeFact | JobFact:
    """The inverse of `event_subject`.

    Raises:
        InvalidSubjectError: No event has such a subject.
        InvalidNameError: A token is no encoded name.
    """
    match subject.removeprefix(EVENTS + ".").split("."):
        case ["node", node, fact] if subject.startswith(EVENTS):
            return NodeFact(decode_name(node), fact)
        case ["job", namespace, job, entity, entity_id, fact] if subject.startswith(EVENTS):
            key = JobKey.from_token(f"{namespace}.{job}")
            return JobFact(key, entity, decode_name(entity_id), fact)
        case _:
            raise InvalidSubjectError(subject)


def event_filter(event_class: type[Event], job: JobKey | None = None) -> str:
    """The subject filter for one kind of event, of one job or of all."""
    _, entity, fact, _ = event_class.TYPE.split(".")
    if issubclass(event_class, NodeEvent):
        return f"{EVENTS}.node.*.{fact}"
    return f"{EVENTS}.job.{job.token if job else '*.*'}.{entity}.*.{fact}"


def job_events_filter(job: JobKey) -> str:
    """All events of one job."""
    return f"{EVENTS}.job.{job.token}.>"


def telemetry_subject(job: JobKey, incarnation: str) -> str:
    """Where an agent's reports are published."""
    return f"{TELEMETRY}.job.{job.token}.{encode_name(incarnation)}"


def order_subject(job: JobKey) -> str:
    """Where the orders of a job are published; its last message is the job's desired state."""
    return f"{ORDERS}.job.{job.token}"


def posted_order_subject(job: JobKey) -> str:
    """Where an agent hears the orders of its job."""
    return f"{POSTED_ORDERS}.job.{job.token}"


def parse_order_subject(subject: str) -> JobKey:
    """The job whose orders are published there.

    Raises:
        InvalidSubjectError: No order has such a subject.
        InvalidNameError: A token is no encoded name.
    """
    match subject.removeprefix(ORDERS + ".").split("."):
        case ["job", namespace, job] if subject.startswith(ORDERS):
            return JobKey.from_token(f"{namespace}.{job}")
        case _:
            raise InvalidSubjectError(subject)


def query_subject(query: Query) -> str:
    """Where a query is asked."""
    return served_subject(type(query), query.address)


def served_subject(query_class: type[Query], address: str = "") -> str:
    """Where a query is answered; ``address`` as in `Query.address`."""
    base = f"{RPC}.{query_class.SERVICE}.{query_class.QUERY}"
    return f"{base}.{address}" if address else base


def dead_subject(subject: str) -> str:
    """Where a message that came on ``subject`` ends when nobody can handle it."""
    return f"{DEAD}.{subject.partition('.')[2] or subject}"
