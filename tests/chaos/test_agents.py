"""Agents as processes of their own on a real server: what each loss does, and what it does not."""

import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path

from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberFormed, MemberLeft
from everstep_contract.facts.worker import WorkerExited
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember, ProbeReply
from everstep_trainer.agent.peer import ask_peer
from support.agent_fleet import DURATIONS, JOB, Fleet
from support.agent_home import gone
from support.polling import eventually
from support.relay import Relay


async def stepping(agents: Fleet, count: int) -> None:
    """So many agents, in generation 1."""
    for _ in range(count):
        await agents.start()
    await agents.all_are("ready", 0)
    await agents.order(1, tuple(range(count)))
    await agents.all_are("stepping", 1)


async def look(agents: Fleet, witness: int, target: int, seconds: float = 2) -> str:
    """What one agent finds at another's peer port, asked over the bus."""
    async with AsyncExitStack() as stack:
        bus = await agents.connect("adjudicator", stack)
        query = ProbeMember(
            job=JOB,
            witness=agents.seat(witness).member.incarnation,
            target=agents.seat(target).member.incarnation,
            endpoint=agents.seat(target).peer,
            timeout_seconds=seconds,
        )
        return (await bus.ask(query, ProbeReply, timeout_seconds=10)).outcome


async def test_r3_agents_of_a_job_with_dots_in_its_name_form_and_tell(agents: Fleet) -> None:
    await stepping(agents, 3)
    await eventually(lambda: len(agents.events(MemberFormed)) == 3)
    first = agents.events(StepAdvanced)[0]
    assert first.first
    assert (first.job, first.member.name) == (JOB, "trainer-0")
    assert "." in JOB.name


async def test_ec20_one_terminated_member_leaves_alone_and_may_come_back(agents: Fleet) -> None:
    await stepping(agents, 3)
    workers = agents.pids(0) + agents.pids(1)
    agents.agents[2].send_signal(signal.SIGTERM)
    assert await agents.agents[2].wait() == 143
    await eventually(lambda: agents.events(MemberLeft, 2))
    await agents.order(2, (0, 1))
    await agents.all_are("stepping", 2, 0, 1)
    await agents.start()
    await agents.all_are("ready", 2, 3)
    await agents.order(3, (0, 1, 3))
    await agents.all_are("stepping", 3, 0, 1, 3)
    assert agents.pids(0) + agents.pids(1) == workers
    assert [left.member.name for left in agents.events(MemberLeft)] == ["trainer-2"]


async def test_ec74_a_job_that_is_given_up_leaves_no_process_and_ends_as_a_failure(
    agents: Fleet,
) -> None:
    await stepping(agents, 3)
    workers = [pid for index in range(3) for pid in agents.pids(index)]
    await agents.order(2, (), state="stop", reason="3 incidents without a step beyond 120")
    assert [await agent.wait() for agent in agents.agents] == [1, 1, 1]
    for pid in workers:
        await gone(pid)
    await eventually(lambda: len(agents.events(MemberLeft)) == 3)
    assert {left.detail for left in agents.events(MemberLeft)} == {
        "order 2 stops the job: 3 incidents without a step beyond 120"
    }
    assert all("without a step beyond 120" in agents.log(index) for index in range(3))


async def test_a_killed_agent_takes_all_its_children_and_no_one_elses(agents: Fleet) -> None:
    await stepping(agents, 2)
    family = descendants(agents.agents[0].pid)
    assert len(family) == 3  # zygote, worker, store host
    agents.agents[0].send_signal(signal.SIGKILL)
    for pid in family:
        await gone(pid)
    os.kill(agents.pids(1)[0], 0)


async def test_a_killed_agent_takes_a_busy_flusher_with_it(agents: Fleet) -> None:
    await agents.start("saves-4096", EVERSTEP_CHECKPOINT_ROOT=str(agents.folder))
    await agents.all_are("ready", 0)
    await agents.order(1, (0,))
    await eventually(lambda: agents.events(ShardPrepared))
    family = descendants(agents.agents[0].pid)
    assert len(family) == 4  # zygote, worker, store host, flusher
    agents.agents[0].send_signal(signal.SIGKILL)
    for pid in family:
        await gone(pid)


async def test_r11_probes_tell_the_living_the_killed_and_the_frozen_apart(agents: Fleet) -> None:
    await stepping(agents, 3)
    assert await look(agents, 0, 1) == "alive"
    agents.agents[1].send_signal(signal.SIGKILL)
    await agents.agents[1].wait()
    assert await look(agents, 0, 1) == "refused"
    agents.agents[2].send_signal(signal.SIGSTOP)
    assert await look(agents, 0, 2, seconds=0.25) == "silent"


async def test_a_dead_worker_is_told_and_replaced_while_its_sibling_lives_on(
    agents: Fleet,
) -> None:
    await agents.start(nproc=2)
    await agents.all_are("ready", 0)
    await agents.order(1, (0,))
    await agents.all_are("stepping", 1)
    killed, kept = agents.pids(0)
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: agents.events(WorkerExited))
    await agents.order(2, (0,), restart=(agents.seat(0).member.incarnation,))
    await agents.all_are("stepping", 2)
    assert agents.pids(0)[1] == kept


async def test_training_goes_on_without_the_bus_and_orders_are_heard_again_after_it(
    agents: Fleet,
) -> None:
    await stepping(agents, 2)
    workers = agents.pids(0) + agents.pids(1)
    agents.server.kill()
    steps = [agents.steps(0), agents.steps(1)]
    await eventually(lambda: agents.steps(0) > steps[0] + 50 and agents.steps(1) > steps[1] + 50)
    agents.server.start()
    await eventually(lambda: agents.bus.connected)
    await agents.order(2, (0, 1))
    await agents.all_are("stepping", 2)
    assert agents.pids(0) + agents.pids(1) == workers


async def test_r9_gossip_brings_an_order_to_an_agent_whose_bus_is_cut(agents: Fleet) -> None:
    async with Relay(agents.server.url) as relay:
        await agents.start()
        await agents.start(EVERSTEP_NATS_URL=relay.url)
        await agents.all_are("ready", 0)
        await agents.order(1, (0, 1))
        await agents.all_are("stepping", 1)
        relay.cut()
        await agents.order(2, (0,))
        await agents.all_are("stepping", 2, 0)
        await eventually(lambda: heard_from_a_peer(agents.log(1), 2))
        step = agents.steps(1)
        elsewhere = agents.steps(0)
        await eventually(lambda: agents.steps(0) > elsewhere + 20)
        assert agents.steps(1) <= step + 1


async def test_r9_a_member_without_the_bus_asks_its_peers_for_what_it_missed(
    agents: Fleet,
) -> None:
    async with Relay(agents.server.url) as relay:
        for _ in range(2):
            await agents.start()
        await agents.start(EVERSTEP_NATS_URL=relay.url)
        await agents.all_are("ready", 0)
        await agents.order(1, (0, 1, 2))
        await agents.all_are("stepping", 1)
        relay.cut()
        agents.agents[2].send_signal(signal.SIGSTOP)
        await agents.order(2, (0, 1))
        await agents.all_are("stepping", 2, 0, 1)
        agents.agents[2].send_signal(signal.SIGCONT)
        await eventually(lambda: heard_from_a_peer(agents.log(2), 2))


async def test_r24_an_agent_with_neither_bus_nor_steps_ends_itself(agents: Fleet) -> None:
    durations = DURATIONS.model_copy(update={"self_fence_seconds": 1.0})
    async with Relay(agents.server.url) as relay:
        await agents.start("deaf", EVERSTEP_NATS_URL=relay.url)
        await agents.start(EVERSTEP_NATS_URL=relay.url)
        await agents.all_are("ready", 0)
        await agents.order(1, (0, 1), durations=durations)
        await agents.all_are("stepping", 1)
        (stuck,) = agents.pids(0)
        relay.cut()
        assert await agents.agents[0].wait() == 75
        await gone(stuck)
        steps = agents.steps(1)
        await eventually(lambda: agents.steps(1) > steps + 20)


async def test_ec51_an_order_from_a_stranger_is_ignored(agents: Fleet) -> None:
    await stepping(agents, 1)
    await ask_peer(agents.seat(0).peer, forged_order(), 5, source="127.0.0.9")
    await eventually(lambda: "order from a stranger ignored" in agents.log(0))
    assert agents.phases() == [("stepping", 1)]


async def test_r1_an_agent_that_is_made_anew_is_a_newcomer_under_its_old_name(
    agents: Fleet,
) -> None:
    await stepping(agents, 2)
    old = agents.seat(1)
    agents.agents[1].send_signal(signal.SIGKILL)
    await agents.agents[1].wait()
    await agents.start(EVERSTEP_POD_NAME="trainer-1")
    await eventually(lambda: agents.seat(1).member.incarnation != old.member.incarnation)
    await agents.order(2, (0,), seats=(agents.seat(0), old))
    await eventually(lambda: agents.phases()[1] == ("starting", 2))
    assert agents.steps(2) == 0


def forged_order() -> Order:
    """An order that nobody posted."""
    return Order(
        job=JOB,
        job_uid="uid-1",
        generation=99,
        verdict_id="forged",
        state="stop",
        durations=DURATIONS,
    )


def heard_from_a_peer(log: str, generation: int) -> bool:
    """Whether an agent's log says so."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return any(line.get("via") == "peer" and line["generation"] == generation for line in lines)


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [found for child in map(int, children) for found in (child, *descendants(child))]
