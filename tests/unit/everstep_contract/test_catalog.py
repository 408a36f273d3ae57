"""Every message has a type of its own, and every fact an id that can be recomputed."""

import pytest
from everstep_contract.base import Event
from everstep_contract.catalog import EVENTS, MESSAGES, QUERIES, REPLIES, message_class
from everstep_contract.errors import UnknownTypeError
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.node import NodeEvent
from everstep_contract.queries import Refused

FACTS = [one for one in EXAMPLES.values() if isinstance(one, Event)]


def test_every_type_leads_back_to_its_model() -> None:
    assert len({message.TYPE for message in MESSAGES}) == len(MESSAGES)
    assert all(message_class(message.TYPE) is message for message in MESSAGES)


def test_an_unknown_type_is_refused() -> None:
    with pytest.raises(UnknownTypeError, match=r"everstep\.x\.y\.v1"):
        message_class("everstep.x.y.v1")


@pytest.mark.parametrize("event", FACTS, ids=lambda event: event.TYPE)
def test_the_id_of_a_fact_depends_on_the_fact_alone(event: Event) -> None:
    again = type(event).model_validate_json(event.model_dump_json())
    assert event.dedup_id == again.dedup_id
    assert event.dedup_id.startswith(event.TYPE)


def test_two_facts_never_share_an_id() -> None:
    assert len({event.dedup_id for event in FACTS}) == len(FACTS) == len(EVENTS)


def test_every_fact_is_about_a_node_or_a_job() -> None:
    for event in EVENTS:
        assert issubclass(event, NodeEvent) or "job" in event.model_fields


def test_every_query_has_its_reply_in_the_catalog() -> None:
    assert {query.REPLY for query in QUERIES} | {Refused} == set(REPLIES)
