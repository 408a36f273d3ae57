"""What only a real nats-server can do to its clients."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from everstep_bus.background import background
from everstep_bus.errors import AccessDeniedError, TransientBusError
from everstep_bus.interface import Bus, Connection, Disconnected, Received
from everstep_bus.nats import connect, link
from everstep_bus.nats.credentials import public_key
from everstep_contract import subjects
from everstep_contract.base import Event
from everstep_contract.clients import agent_client_name, service_client_name
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.worker import WorkerExited
from everstep_contract.identity import JobKey
from everstep_contract.layout import EVENTS, JOBS, Consumer
from support.messages import AT, JOB, member, record, report, step_advanced
from support.nats_world import NatsWorld
from support.polling import collected, eventually

STEPS = Consumer("adjudicator", EVENTS, (subjects.event_filter(StepAdvanced),))
EXITS = Consumer("adjudicator", EVENTS, (subjects.event_filter(WorkerExited),))
NATS_PY_BUDGET = 60
"""Attempts after which a client of nats-py closes for ever, if it is left as it comes."""


async def test_ec03_a_pull_consumer_survives_a_killed_server_without_a_restart(
    nats_world: NatsWorld,
) -> None:
    watcher, agent = await nats_world.service(), await nats_world.agent(JOB, "worker-0.1")
    handled: list[object] = []

    async def handle(received: Received) -> None:
        handled.append(received.message)

    async with background(watcher.consume(STEPS, handle)):
        await agent.publish(step_advanced(1))
        await eventually(lambda: handled)
        await nats_world.stop()
        await eventually(lambda: not watcher.connected and not agent.connected)
        await nats_world.start()
        await eventually(lambda: agent.connected)
        await agent.publish(step_advanced(42))
        await eventually(lambda: len(handled) == 2, within_seconds=10)
    assert handled == [step_advanced(1), step_advanced(42)]


async def test_ec04_deleting_the_consumer_behind_a_watch_rebuilds_it_once(
    nats_world: NatsWorld,
) -> None:
    bus = await nats_world.service()
    kv = bus.kv(JOBS)
    first = await kv.put(JOB.token, record(7), expected=0)
    async with collected(kv.watch()) as entries:
        await eventually(lambda: entries)
        await nats_world.lose_followers("KV_jobs")
        await kv.put(JOB.token, record(8), expected=first)
        await eventually(lambda: len(entries) == 2, within_seconds=15)
    assert [entry.value for entry in entries] == [record(7), record(8)]
    assert bus.counts.rebuilds == 1


async def test_ec04_a_watch_that_is_fed_nothing_but_heartbeats_finds_out(
    nats_world: NatsWorld,
) -> None:
    bus = await nats_world.service()
    kv = bus.kv(JOBS)
    first = await kv.put(JOB.token, record(7), expected=0)
    async with collected(kv.watch()) as entries:
        await eventually(lambda: entries)
        root = await nats_world.root_stream()
        [feed] = await root.consumers_info("KV_jobs")
        await root.pause_consumer("KV_jobs", feed.name, "2100-01-01T00:00:00Z")
        await kv.put(JOB.token, record(8), expected=first)
        await eventually(lambda: len(entries) == 2, within_seconds=15)
    assert entries[1].value == record(8)
    assert bus.counts.resyncs == 1


async def test_ec38_a_client_never_gives_up_reconnecting(
    nats_world: NatsWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "LONGEST_BACKOFF_SECONDS", 0.02)
    watcher, agent = await nats_world.service(), await nats_world.agent(JOB, "worker-0.1")
    handled: list[object] = []

    async def handle(received: Received) -> None:
        handled.append(received.message)

    async with background(watcher.consume(STEPS, handle)):
        await nats_world.stop()
        await eventually(lambda: watcher.counts.failures > 2 * NATS_PY_BUDGET)
        await nats_world.start()
        await eventually(lambda: watcher.connected and agent.connected)
        await agent.publish(step_advanced(1))
        await eventually(lambda: handled == [step_advanced(1)])


async def test_ec39_a_flood_of_telemetry_does_not_crowd_out_a_fatal_event(
    nats_world: NatsWorld,
) -> None:
    members, rounds = 100, 20
    watcher, agent = await nats_world.service(), await nats_world.agent(JOB, "worker-0.1")
    newest: dict[str, int] = {}
    acted: list[object] = []

    async def read_slowly() -> None:
        async for one in watcher.reports():
            newest[one.member.name] = one.sequence
            await asyncio.sleep(0.005)

    async def act(received: Received) -> None:
        acted.append(received.message)

    fatal = WorkerExited(
        at=AT, job=JOB, member=member(0), local_rank=0, pid=7, generation=1, classified="hardware"
    )
    async with background(read_slowly(), watcher.consume(EXITS, act)):
        await eventually(lambda: reported(agent, newest))
        for sequence in range(1, rounds + 1):
            for index in range(members):
                await agent.report(report(index, sequence))
            if sequence == rounds // 2:
                await eventually(lambda: published(agent, fatal))
        await eventually(lambda: acted == [fatal], within_seconds=5)
        everyone = {f"worker-{index}": rounds for index in range(members)}
        await eventually(lambda: newest == everyone)
    assert watcher.counts.skipped > 0
    assert watcher.counts.dropped == 0


async def published(agent: Bus, event: Event) -> bool:
    """Whether it is stored now; a publisher tries until it is."""
    try:
        await agent.publish(event)
    except TransientBusError:
        return False
    return True


async def reported(agent: object, newest: dict[str, int]) -> bool:
    """Whether the reader is there; it must be before the flood comes."""
    await agent.report(report(0, 0))  # type: ignore[attr-defined]
    return bool(newest)


async def test_a_frozen_client_is_stale_and_comes_back_by_itself(vigilant_world: NatsWorld) -> None:
    """The silent death: nothing says goodbye, nats-server's own pings find out."""
    events = await vigilant_world.server_events()
    name = agent_client_name(JOB, "worker-0.1")
    seed = vigilant_world.credentials / f"everstep-agent.{JOB.token}.nk"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, vigilant_world.server.url, name, str(seed)
    )
    try:
        async with collected(events.advisories()) as advisories:
            await eventually(lambda: connected_as(events, name))
            os.kill(process.pid, signal.SIGSTOP)
            await eventually(
                lambda: any(
                    isinstance(one, Disconnected)
                    and one.connection.name == name
                    and one.reason == "Stale Connection"
                    for one in advisories
                )
            )
            os.kill(process.pid, signal.SIGCONT)
            await eventually(lambda: connected_as(events, name))
    finally:
        process.kill()
        await process.wait()


CLIENT = """
import asyncio, pathlib, sys
from everstep_bus.nats import connect

async def main():
    url, name, seed = sys.argv[1:]
    async with connect((url,), name, seed_path=pathlib.Path(seed)):
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def connected_as(events: object, name: str) -> bool:
    found = await events.connections()  # type: ignore[attr-defined]
    return any(one.name == name for one in found)


async def test_r10_the_inventory_pages_through_all_connections(nats_world: NatsWorld) -> None:
    events = await nats_world.server_events(page=3)
    names = {agent_client_name(JOB, f"worker-{index}.1") for index in range(8)}
    for index in range(8):
        await nats_world.agent(JOB, f"worker-{index}.1")
    found = await events.connections()
    assert names <= {one.name for one in found}
    assert len({(one.server_id, one.client_id) for one in found}) == len(found) >= 9
    assert all(isinstance(one, Connection) for one in found)


async def test_a_job_is_admitted_while_the_others_stay_connected(nats_world: NatsWorld) -> None:
    newcomer = JobKey(namespace="team.c", name="late.comer")
    first = await nats_world.agent(JOB, "worker-0.1")
    nats_world.server.admit(newcomer)
    second = await nats_world.agent(newcomer, "worker-0.1")
    await second.publish(step_advanced(1, newcomer))
    assert first.counts.connections == 1


async def test_r3_names_with_dots_and_spaces_go_through_subjects_keys_and_back(
    nats_world: NatsWorld,
) -> None:
    job = JobKey(namespace="ns.with.dots", name="a > b * c")
    nats_world.server.admit(job)
    agent, bus = await nats_world.agent(job, "worker.0"), await nats_world.service()
    handled: list[object] = []

    async def handle(received: Received) -> None:
        handled.append(received.message)

    async with background(bus.consume(STEPS, handle)):
        await agent.publish(step_advanced(1, job))
        await eventually(lambda: handled == [step_advanced(1, job)])
    kv = bus.kv(JOBS)
    await kv.put(job.token, record(1, job), expected=0)
    [entry] = await kv.entries()
    assert JobKey.from_token(entry.key) == job


async def test_wrong_credentials_end_the_start_with_a_clear_error(nats_world: NatsWorld) -> None:
    stranger = nats_world.directory / "stranger.nk"
    public_key(stranger)
    name = service_client_name("adjudicator", "1")
    with pytest.raises(AccessDeniedError, match=name):
        async with connect((nats_world.server.url,), name, seed_path=stranger):
            pass


@pytest.mark.parametrize("content", ["", "not a seed"])
async def test_credentials_that_are_no_seed_end_the_start_with_a_clear_error(
    nats_world: NatsWorld, content: str
) -> None:
    broken = nats_world.directory / "broken.nk"
    broken.write_text(content)
    name = service_client_name("adjudicator", "1")
    with pytest.raises(AccessDeniedError, match=name):
        async with connect((nats_world.server.url,), name, seed_path=broken):
            pass


async def test_a_call_that_is_cancelled_as_its_answer_comes_stays_cancelled(
    nats_world: NatsWorld,
) -> None:
    """A leader that lost its lease must stop, whatever asyncio.wait_for swallows."""
    kv = (await nats_world.service()).kv(JOBS)
    await kv.put(JOB.token, record(1), expected=0)

    async def read_for_ever() -> None:
        while True:
            await kv.get(JOB.token)

    for _ in range(200):
        reading = asyncio.create_task(read_for_ever())
        for _ in range(20):
            await asyncio.sleep(0)
        await asyncio.sleep(0.0003)
        reading.cancel()
        await asyncio.wait({reading}, timeout=5)
        assert reading.cancelled()


async def test_calls_in_flight_end_at_once_when_the_connection_is_lost(
    nats_world: NatsWorld,
) -> None:
    agent = await nats_world.agent(JOB, "worker-0.1")
    os.kill(nats_world.server.pid, signal.SIGSTOP)
    await eventually(lambda: " T " in Path(f"/proc/{nats_world.server.pid}/stat").read_text())
    publishing = asyncio.create_task(agent.publish(step_advanced(1)))
    await asyncio.sleep(0)
    await nats_world.stop()
    with pytest.raises(TransientBusError, match="connection lost"):
        await publishing
