"""Grants as subjects: nothing is granted by accident."""

from typing import get_args

import pytest
from everstep_bus.memory.filters import admits
from everstep_bus.nats.permissions import permissions
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.clients import AgentClient, Role, ServiceClient
from everstep_contract.examples import EXAMPLES
from everstep_contract.identity import JobKey
from everstep_contract.names import MAX_NAME_BYTES
from everstep_contract.roles import GRANTS
from hypothesis import given
from hypothesis import strategies as st

names = st.text(min_size=1, max_size=20).filter(
    lambda name: (
        0 < len(name.encode("utf-8", "ignore")) <= MAX_NAME_BYTES
        and name.encode("utf-8", "ignore").decode() == name
    )
)
jobs = st.builds(JobKey, namespace=names, name=names)
SERVICES = [role for role in get_args(Role) if role != "agent"]


def allowed(client: AgentClient | ServiceClient, direction: str) -> list[str]:
    rule = permissions(client)[direction]
    return list(rule.get("allow", []))


@given(jobs, jobs)
def test_ec51_an_agents_permissions_name_no_job_but_its_own(own: JobKey, other: JobKey) -> None:
    client = AgentClient(own, "w")
    about_other = [
        subjects.order_subject(other),
        subjects.posted_order_subject(other),
        subjects.telemetry_subject(other, "w"),
        f"{subjects.EVENTS}.job.{other.token}.member.w.left",
        f"$JS.API.DIRECT.GET.ORDERS.{subjects.order_subject(other)}",
        f"_INBOX.agent.{other.token}.x",
        f"$KV.jobs.{other.token}",
    ]
    reached = [
        subject
        for subject in about_other
        for direction in ("publish", "subscribe")
        if any(admits(one, subject) for one in allowed(client, direction))
    ]
    assert not reached or own == other


@pytest.mark.parametrize("role", SERVICES)
def test_a_service_publishes_the_facts_of_its_grant_and_no_others(role: Role) -> None:
    client = ServiceClient(role, "1")
    published = {
        type(event)
        for event in EXAMPLES.values()
        if isinstance(event, Event)
        and any(admits(one, subjects.event_subject(event)) for one in allowed(client, "publish"))
    }
    assert published == set(GRANTS[role].publishes)


def test_every_fact_has_exactly_one_kind_of_author() -> None:
    authors = [event for grant in GRANTS.values() for event in grant.publishes]
    assert len(authors) == len(set(authors))
    assert {event.TYPE for event in authors} == {
        event.TYPE for event in EXAMPLES.values() if isinstance(event, Event)
    }


def test_a_role_without_a_grant_may_publish_nothing_rather_than_everything() -> None:
    assert permissions(ServiceClient("canary", "1"))["publish"] == {"deny": [">"]}
