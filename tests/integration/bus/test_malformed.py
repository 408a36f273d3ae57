"""A malformed message on every subject lands in DEAD with its reason; never a silent drop."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from everstep_bus.background import background
from everstep_bus.interface import Received
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.catalog import EVENTS as EVENT_CLASSES
from everstep_contract.envelope import decode, encode
from everstep_contract.examples import EXAMPLES
from everstep_contract.layout import BUCKETS, EVENTS, Bucket, Consumer
from everstep_contract.queries import Query, Refused, Reply
from everstep_contract.telemetry import MemberReport
from nats.aio.client import Client
from support.bus_worlds import BusWorld, dead_letters
from support.messages import JOB, report
from support.nats_world import NatsWorld
from support.polling import collected, eventually

EVERYTHING = Consumer("adjudicator", EVENTS, (f"{subjects.EVENTS}.>",))


async def nothing(received: Received) -> None:
    raise AssertionError(f"decoded {received.message}")


async def test_of_every_fact(world: BusWorld) -> None:
    examples = [example for example in EXAMPLES.values() if isinstance(example, Event)]
    assert {type(example) for example in examples} == set(EVENT_CLASSES)
    bus = await world.service()
    for example in examples:
        headers = {"ce-type": example.TYPE}
        await world.inject(subjects.event_subject(example), b'{"at": "soon"}', headers)
    async with background(bus.consume(EVERYTHING, nothing)):
        await eventually(lambda: _count(world, len(examples)))
    letters = await dead_letters(world)
    assert {letter.subject for letter in letters} == set(map(subjects.event_subject, examples))
    assert all(letter.reason and letter.cause == "undecodable" for letter in letters)


async def test_of_telemetry(world: BusWorld) -> None:
    bus = await world.service()
    agent = await world.agent(JOB, "worker-0.1")
    subject = subjects.telemetry_subject(JOB, "worker-0.1")
    await world.inject(subject, b"\x00", {"ce-type": MemberReport.TYPE})
    async with collected(bus.reports()) as reports:
        await eventually(lambda: _count(world, 1))
        await agent.report(report(0, 1))
        await eventually(lambda: reports == [report(0, 1)])
    [letter] = await dead_letters(world)
    assert (letter.subject, letter.consumer) == (subject, "reports")


@pytest.mark.parametrize("bucket", BUCKETS, ids=lambda bucket: bucket.name)
async def test_of_every_bucket(world: BusWorld, bucket: Bucket) -> None:  # type: ignore[type-arg]
    bus = await world.service()
    await world.inject(f"$KV.{bucket.name}.key", b"[]", {})
    async with collected(bus.kv(bucket).watch()) as entries:
        await eventually(lambda: _count(world, 1))
    [letter] = await dead_letters(world)
    assert (letter.subject, letter.consumer) == (f"$KV.{bucket.name}.key", f"kv:{bucket.name}")
    assert entries == []


QUERIES = [
    example.model_copy(update={"job": JOB})
    for example in EXAMPLES.values()
    if isinstance(example, Query)
]


async def unanswerable(query: Query) -> Reply:
    raise AssertionError(f"decoded {query}")


@asynccontextmanager
async def answered(world: NatsWorld, query: Query) -> AsyncIterator[Client]:
    """Whoever answers such queries is there; a client that may ask anything."""
    by_agent = query.SERVICE == "agent"
    bus = await (world.agent(JOB, "any") if by_agent else world.service(query.SERVICE))
    async with bus.answer(type(query), unanswerable, address=query.address):
        yield await world.root()


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.TYPE)
async def test_of_every_query_whose_asker_hears_why(nats_world: NatsWorld, query: Query) -> None:
    headers, subject = {"ce-type": query.TYPE}, subjects.query_subject(query)
    async with answered(nats_world, query) as client:
        answer = await client.request(subject, b"[]", timeout=5, headers=headers)
        assert isinstance(decode(answer.headers, answer.data), Refused)
        await eventually(lambda: _count(nats_world, 1))
    [letter] = await dead_letters(nats_world)
    assert (letter.subject, letter.cause) == (subject, "undecodable")


async def test_of_a_query_that_nobody_awaits_the_reply_of(nats_world: NatsWorld) -> None:
    headers, payload = encode(QUERIES[0], source="nobody")
    async with answered(nats_world, QUERIES[0]) as client:
        await client.publish(subjects.query_subject(QUERIES[0]), payload, headers=headers)
        await eventually(lambda: _count(nats_world, 1))


async def _count(world: BusWorld, count: int) -> bool:
    return len(await dead_letters(world)) == count
