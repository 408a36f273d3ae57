"""Each role's credentials against a real server (EC-51): what is not granted changes nothing."""

import asyncio
from pathlib import Path

import nats
import pytest
from everstep_bus.nats.credentials import agent_seed_path, role_seed_path
from everstep_contract import subjects
from everstep_contract.base import Event, Model
from everstep_contract.envelope import encode
from everstep_contract.facts.job import OrderIssued, VerdictReached
from everstep_contract.layout import JOBS
from nats.aio.client import Client
from nats.errors import Error
from support.messages import (
    JOB,
    OTHER_JOB,
    member_left,
    order,
    record,
    report,
    step_advanced,
)
from support.nats_world import NatsWorld
from support.polling import eventually

SERVICES = ("node_watcher", "adjudicator", "rescaler", "checkpoint_indexer")
OUTSIDERS = ("operator", "canary")
EVERYTHING_STORED = ("EVENTS", "TELEMETRY", "ORDERS", "DEAD", "KV_jobs", "KV_leases")


class Intruder:
    """A client with stolen credentials and no scruples."""

    def __init__(self, world: NatsWorld) -> None:
        self._world = world
        self.refused: list[str] = []

    async def connect(self, seed: Path, inbox_prefix: str) -> Client:
        async def hear(error: Exception) -> None:
            self.refused.append(str(error))

        client = await nats.connect(
            self._world.server.url,
            nkeys_seed=str(seed),
            inbox_prefix=inbox_prefix,
            error_cb=hear,
            allow_reconnect=False,
        )
        self._world.stack.push_async_callback(client.close)
        return client


async def everything_stored(world: NatsWorld) -> dict[str, object]:
    return {stream: await world.stored(stream) for stream in EVERYTHING_STORED}


def agents_mischief() -> dict[str, tuple[str, bytes]]:
    """What a training pod has no business to publish, by the reason."""
    return {
        "an order for its own job": (subjects.order_subject(JOB), encoded(order(9))),
        "a repeated order": (subjects.posted_order_subject(JOB), encoded(order(9))),
        "another job's fact": (
            subjects.event_subject(step_advanced(1, OTHER_JOB)),
            encoded(step_advanced(1, OTHER_JOB)),
        ),
        "another job's telemetry": (
            subjects.telemetry_subject(OTHER_JOB, "worker-0.1"),
            encoded(report(0, 1, OTHER_JOB)),
        ),
        "a verdict": (foreign_fact(VerdictReached), b"{}"),
        "a copy of an order": (foreign_fact(OrderIssued), b"{}"),
        "the truth about its job": (f"$KV.jobs.{JOB.token}", encoded(record(9))),
        "a lease": ("$KV.leases.adjudicator", b"{}"),
        "a purge": ("$JS.API.STREAM.PURGE.EVENTS", b""),
        "a deletion": ("$JS.API.STREAM.DELETE.ORDERS", b""),
        "a stream": ("$JS.API.STREAM.CREATE.MINE", b'{"name":"MINE","subjects":["mine.>"]}'),
        "a consumer": ("$JS.API.CONSUMER.CREATE.EVENTS.mine", b"{}"),
        "another job's orders": (
            f"$JS.API.DIRECT.GET.ORDERS.{subjects.order_subject(OTHER_JOB)}",
            b"",
        ),
        "a dead letter about another job": (
            subjects.dead_subject(subjects.order_subject(OTHER_JOB)),
            b"{}",
        ),
        "an operator's command": ("everstep.rpc.v1.adjudicator.suspend_job", b"{}"),
        "a probe of its own": (f"everstep.rpc.v1.agent.probe_member.{JOB.token}.x", b"{}"),
    }


def foreign_fact(event_class: type[Event]) -> str:
    """The subject of a fact about the agent's own job that only a service may tell."""
    return subjects.event_filter(event_class, JOB).replace("*", "id")


def encoded(message: Model) -> bytes:
    return message.model_dump_json().encode()


async def test_ec51_an_agents_credentials_change_nothing_that_is_not_its_own(
    nats_world: NatsWorld,
) -> None:
    rescaler, adjudicator = await nats_world.service("rescaler"), await nats_world.service()
    agent = await nats_world.agent(JOB, "worker-0.1")
    await rescaler.post_order(order(1), expected=0)
    await adjudicator.kv(JOBS).put(JOB.token, record(1), expected=0)
    await agent.publish(member_left(1))
    before = await everything_stored(nats_world)
    intruder = Intruder(nats_world)
    seed = agent_seed_path(nats_world.credentials, JOB)
    client = await intruder.connect(seed, f"_INBOX.agent.{JOB.token}")
    attempts = agents_mischief()
    for subject, payload in attempts.values():
        await client.publish(subject, payload)
    await eventually(lambda: len(intruder.refused) == len(attempts))
    assert await everything_stored(nats_world) == before


@pytest.mark.parametrize(
    "subject",
    [
        subjects.posted_order_subject(OTHER_JOB),
        subjects.order_subject(JOB),
        f"{subjects.EVENTS}.>",
        "$SYS.>",
        "_INBOX.>",
        "_INBOX.adjudicator.>",
        f"_INBOX.agent.{OTHER_JOB.token}.>",
        f"everstep.rpc.v1.agent.probe_member.{OTHER_JOB.token}.*",
        "everstep.rpc.v1.adjudicator.suspend_job",
    ],
)
async def test_ec51_an_agent_cannot_listen_to_what_is_not_its_own(
    nats_world: NatsWorld, subject: str
) -> None:
    intruder = Intruder(nats_world)
    seed = agent_seed_path(nats_world.credentials, JOB)
    client = await intruder.connect(seed, f"_INBOX.agent.{JOB.token}")
    await client.subscribe(subject)
    await eventually(lambda: intruder.refused)


@pytest.mark.parametrize("role", [*SERVICES, *OUTSIDERS])
async def test_only_the_rescaler_orders_and_only_the_adjudicator_writes_the_record(
    nats_world: NatsWorld, role: str
) -> None:
    headers, payload = encode(order(1), source="test")
    seed = role_seed_path(nats_world.credentials, role)  # type: ignore[arg-type]  # a role
    client = await Intruder(nats_world).connect(seed, f"_INBOX.{role}")
    writes = {
        "rescaler": (subjects.order_subject(JOB), payload, headers),
        "adjudicator": (f"$KV.jobs.{JOB.token}", encoded(record(1)), {}),
    }
    allowed = set()
    for owner, (subject, body, written) in writes.items():
        try:
            await client.jetstream().publish(subject, body, headers=written, timeout=0.3)
        except (Error, TimeoutError):
            continue
        allowed.add(owner)
    assert allowed == {role} & set(writes)


@pytest.mark.parametrize("role", [*SERVICES, *OUTSIDERS])
async def test_no_role_may_destroy_what_is_stored(nats_world: NatsWorld, role: str) -> None:
    intruder = Intruder(nats_world)
    seed = role_seed_path(nats_world.credentials, role)  # type: ignore[arg-type]  # a role
    client = await intruder.connect(seed, f"_INBOX.{role}")
    destructive = [
        f"$JS.API.STREAM.{verb}.{stream}"
        for verb in ("PURGE", "DELETE", "MSG.DELETE", "SNAPSHOT", "RESTORE")
        for stream in ("EVENTS", "KV_jobs")
    ]
    for subject in destructive:
        await client.publish(subject, b"")
    await eventually(lambda: len(intruder.refused) == len(destructive))


@pytest.mark.parametrize("role", OUTSIDERS)
async def test_outsiders_publish_no_facts_and_no_dead_letters(
    nats_world: NatsWorld, role: str
) -> None:
    intruder = Intruder(nats_world)
    seed = role_seed_path(nats_world.credentials, role)  # type: ignore[arg-type]  # a role
    client = await intruder.connect(seed, f"_INBOX.{role}")
    for subject in (subjects.event_subject(step_advanced(1)), "everstep.dlq.x", "anything"):
        await client.publish(subject, b"{}")
    await eventually(lambda: len(intruder.refused) == 3)


async def test_an_operator_reads_everything(nats_world: NatsWorld) -> None:
    adjudicator, rescaler = await nats_world.service(), await nats_world.service("rescaler")
    agent, operator = await nats_world.agent(JOB, "w"), await nats_world.service("operator")
    await adjudicator.kv(JOBS).put(JOB.token, record(1), expected=0)
    await rescaler.post_order(order(1), expected=0)
    await agent.publish(step_advanced(1))
    await agent.report(report(0, 1))
    async with asyncio.timeout(20):
        entry = await anext(operator.kv(JOBS).watch())
        fact = await anext(operator.facts((f"{subjects.EVENTS}.>",)))
        told = await anext(operator.reports())
        last = await operator.last_order(JOB)
    assert (entry.value, fact.message, told) == (record(1), step_advanced(1), report(0, 1))
    assert last is not None
    assert last.order == order(1)
