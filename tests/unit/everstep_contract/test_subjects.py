"""Subjects are built and parsed in one place."""

import pytest
from everstep_bus.memory.filters import admits
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.errors import InvalidNameError, InvalidSubjectError
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.node import NodeEvent
from everstep_contract.identity import JobKey
from everstep_contract.queries import ProbeMember, Query
from everstep_contract.subjects import JobFact, NodeFact
from hypothesis import given
from hypothesis import strategies as st

FACTS = [one for one in EXAMPLES.values() if isinstance(one, Event)]
QUERIES = [one for one in EXAMPLES.values() if isinstance(one, Query)]
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
jobs = st.builds(JobKey, namespace=names, name=names)


@pytest.mark.parametrize("event", FACTS, ids=lambda event: event.TYPE)
def test_every_fact_has_a_subject_that_says_whom_it_is_about(event: Event) -> None:
    parsed = subjects.parse_event_subject(subjects.event_subject(event))
    _, entity, fact, _ = event.TYPE.split(".")
    if isinstance(event, NodeEvent):
        assert parsed == NodeFact(event.node, fact)
    else:
        assert parsed == JobFact(event.job, entity, event.entity_id, fact)  # type: ignore[attr-defined]


@pytest.mark.parametrize("event", FACTS, ids=lambda event: event.TYPE)
def test_a_filter_admits_its_own_kind_of_fact_and_no_other(event: Event) -> None:
    subject = subjects.event_subject(event)
    admitting = {one.TYPE for one in FACTS if admits(subjects.event_filter(type(one)), subject)}
    assert admitting == {event.TYPE}


@pytest.mark.parametrize(
    "event", [one for one in FACTS if not isinstance(one, NodeEvent)], ids=lambda event: event.TYPE
)
def test_a_jobs_filters_admit_its_facts_and_no_other_jobs(event: Event) -> None:
    subject = subjects.event_subject(event)
    own, other = event.job, JobKey(namespace="training", name="llama")  # type: ignore[attr-defined]
    assert admits(subjects.event_filter(type(event), own), subject)
    assert admits(subjects.job_events_filter(own), subject)
    assert not admits(subjects.event_filter(type(event), other), subject)
    assert not admits(subjects.job_events_filter(other), subject)


@given(jobs)
def test_r3_the_job_of_an_order_comes_back_from_its_subject(job: JobKey) -> None:
    assert subjects.parse_order_subject(subjects.order_subject(job)) == job


@given(jobs, jobs)
def test_orders_of_two_jobs_never_share_a_subject(one: JobKey, other: JobKey) -> None:
    same = subjects.order_subject(one) == subjects.order_subject(other)
    assert same == (one == other)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.TYPE)
def test_a_query_is_asked_where_it_is_served(query: Query) -> None:
    assert subjects.query_subject(query) == subjects.served_subject(type(query), query.address)


@given(names)
def test_r3_an_agent_is_addressed_whatever_its_incarnation_is_called(incarnation: str) -> None:
    example = EXAMPLES[ProbeMember.TYPE]
    query = example.model_copy(update={"witness": incarnation})
    assert isinstance(query, ProbeMember)
    assert len(subjects.query_subject(query).split(".")) == 8


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "everstep.evt.v1",
        "everstep.evt.v1.node.n",
        "everstep.evt.v1.job.a.b.member.left",
        "everstep.evt.v2.node.n.observed",
        "other.evt.v1.node.n.observed",
        "node.n.observed",
    ],
)
def test_a_subject_that_no_fact_has_is_refused(subject: str) -> None:
    with pytest.raises(InvalidSubjectError):
        subjects.parse_event_subject(subject)


@pytest.mark.parametrize("subject", ["", "everstep.cmd.v1.job.a", "everstep.evt.v1.job.a.b"])
def test_a_subject_that_no_order_has_is_refused(subject: str) -> None:
    with pytest.raises(InvalidSubjectError):
        subjects.parse_order_subject(subject)


def test_a_subject_with_a_token_that_is_no_name_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        subjects.parse_event_subject("everstep.evt.v1.node.=zz.observed")


def test_the_dead_lie_under_what_they_came_on() -> None:
    assert subjects.dead_subject("everstep.cmd.v1.job.a.b") == "everstep.dlq.cmd.v1.job.a.b"
    assert subjects.dead_subject("$KV.jobs.a.b") == "everstep.dlq.jobs.a.b"
