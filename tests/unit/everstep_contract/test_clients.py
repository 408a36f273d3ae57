"""Names of connections (R1, R10)."""

from typing import get_args

import pytest
from everstep_contract.clients import (
    AgentClient,
    Role,
    ServiceClient,
    agent_client_name,
    parse_client_name,
    service_client_name,
)
from everstep_contract.errors import InvalidNameError
from everstep_contract.identity import JobKey
from everstep_contract.roles import GRANTS, inbox_prefix
from hypothesis import given
from hypothesis import strategies as st

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
jobs = st.builds(JobKey, namespace=names, name=names)
SERVICES = [role for role in get_args(Role) if role != "agent"]


@given(jobs, names)
def test_r1_an_advisory_tells_the_job_and_the_incarnation_of_an_agent(
    job: JobKey, incarnation: str
) -> None:
    parsed = parse_client_name(agent_client_name(job, incarnation))
    assert parsed == AgentClient(job, incarnation)


@given(st.sampled_from(SERVICES), names)
def test_a_service_is_known_by_its_role_and_instance(role: Role, instance: str) -> None:
    assert parse_client_name(service_client_name(role, instance)) == ServiceClient(role, instance)


@pytest.mark.parametrize("name", ["", "nats-cli", "everstep", "everstep.agent", "everstep.cook.1"])
def test_a_client_that_is_not_ours_is_nobody(name: str) -> None:
    assert parse_client_name(name) is None


def test_a_name_that_looks_like_ours_and_is_broken_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        parse_client_name("everstep.agent.a.b.=zz")


def test_every_role_has_a_grant() -> None:
    assert set(GRANTS) == set(get_args(Role))


@given(jobs, jobs)
def test_answers_to_two_roles_or_jobs_never_arrive_in_one_inbox(one: JobKey, two: JobKey) -> None:
    inboxes = [inbox_prefix(ServiceClient(role, "1")) for role in SERVICES]
    inboxes.append(inbox_prefix(AgentClient(one, "w")))
    assert len(set(inboxes)) == len(inboxes)
    assert (inbox_prefix(AgentClient(two, "w")) in inboxes) == (one == two)
