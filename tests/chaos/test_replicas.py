"""A member is killed, and its partner has what was its own: real agents, one node, fake workers."""

import random
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.manifest import ShardKind
from everstep_trainer.agent.peer import offer_shard
from everstep_trainer.agent.replicas import Offer
from support.agent_fleet import HERE, Fleet
from support.fake_worker import FEW, NUMBER, content
from support.polling import eventually

KIB = 2500
"""More than two pieces on the network."""
SMALL_KIB = 64
LATE_SECONDS = 60.0
"""A flusher starts, and writes, after all workers of a busy machine."""


async def training(
    agents: Fleet, behaviour: str, count: int = 2, *, within_node: bool = True
) -> None:
    """So many members, in generation 1."""
    for _ in range(count):
        await agents.start(
            behaviour,
            EVERSTEP_CHECKPOINT_ROOT=str(agents.folder),
            EVERSTEP_REPLICATE_WITHIN_NODE=str(within_node),
        )
    await agents.all_are("ready", 0)
    await agents.order(1, tuple(range(count)))
    await agents.all_are("stepping", 1)


def replicated(agents: Fleet, index: int) -> int | None:
    """The newest step that a member's partner has."""
    report = agents.report(index)
    return report.replicated_step if report else None


async def lose(agents: Fleet, lost: int, *survivors: int) -> None:
    """Power off: the agent and all its children; then an order without it."""
    agents.agents[lost].send_signal(signal.SIGKILL)
    await agents.agents[lost].wait()
    await agents.order(2, survivors)


def saved(agents: Fleet, kind: ShardKind, step: int) -> dict[int, bytes]:
    """Of each shard of a step the file that was told of."""
    facts: list[ShardPrepared] = agents.events(ShardPrepared)
    told = [fact for fact in facts if (fact.kind, fact.step) == (kind, step)]
    return {fact.shard: Path(fact.path).read_bytes() for fact in told}


def whole(step: int, count: int, kib: int) -> dict[int, bytes]:
    """What each of so many workers had in memory."""
    return {shard: content(step, shard) * (kib * 1024 // NUMBER.size) for shard in range(count)}


async def test_the_breakpoint_save_has_the_killed_members_ranks_bit_for_bit(
    agents: Fleet,
) -> None:
    await training(agents, f"few-{KIB}", 3)
    last = FEW[-1]
    await eventually(lambda: all(replicated(agents, index) == last for index in range(3)))
    await lose(agents, 1, 0, 2)
    await eventually(lambda: len(saved(agents, "rank", last)) == 3, within_seconds=LATE_SECONDS)
    assert saved(agents, "rank", last) == whole(last, 3, KIB)
    writers = {fact.shard: fact.member.name for fact in agents.events(ShardPrepared)}
    assert writers[1] == "trainer-2"


async def test_a_state_that_is_split_up_survives_the_kill_of_a_member(agents: Fleet) -> None:
    """Though training has gone on since: a snapshot is taken every 5 ms."""
    await training(agents, f"parts-{SMALL_KIB}")
    await eventually(lambda: together(agents), within_seconds=LATE_SECONDS)
    await lose(agents, 0, 1)
    await eventually(lambda: complete(agents), within_seconds=LATE_SECONDS)
    step = max(complete(agents))
    assert saved(agents, "state", step) == saved(agents, "rank", step) == whole(step, 2, SMALL_KIB)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
async def test_whenever_a_member_is_killed_some_step_of_all_parts_is_left(
    agents: Fleet, seed: int
) -> None:
    await training(agents, f"parts-{SMALL_KIB}")
    await eventually(lambda: together(agents), within_seconds=LATE_SECONDS)
    last = agents.step(0) + random.Random(seed).randrange(1500)
    await eventually(lambda: agents.step(0) >= last, within_seconds=LATE_SECONDS)
    await lose(agents, seed % 2, 1 - seed % 2)
    await eventually(lambda: complete(agents), within_seconds=LATE_SECONDS)
    for step in complete(agents):
        assert saved(agents, "state", step) == whole(step, 2, SMALL_KIB)
        assert saved(agents, "rank", step) == whole(step, 2, SMALL_KIB)


def together(agents: Fleet) -> bool:
    """Both members' partners have some step of a period that both have come to ask for."""
    steps = [replicated(agents, index) for index in range(2)]
    return steps[0] is not None and steps[0] == steps[1] and steps[0] > 2 * FEW[-1]


def complete(agents: Fleet) -> list[int]:
    """Steps of which both shards of both kinds were told to be durable."""
    facts: list[ShardPrepared] = agents.events(ShardPrepared)
    told = Counter(step for step, *_ in {(fact.step, fact.kind, fact.shard) for fact in facts})
    return [step for step, shards in told.items() if shards == 4]


async def test_copies_of_nobody_of_the_gang_are_refused_and_the_agent_lives(
    agents: Fleet,
) -> None:
    await training(agents, f"few-{KIB}")
    offer = Offer(
        origin="a stranger",
        kind="state",
        generation=1,
        step=1,
        shard=0,
        shards=2,
        total_bytes=1 << 40,
    )
    refusal = await offer_shard(agents.seat(0).peer, offer, nothing(), source=HERE)
    assert refusal == "it is no member's of this generation"
    step = agents.step(0)
    await eventually(lambda: agents.step(0) > step)


async def nothing() -> AsyncGenerator[bytes]:
    for never in tuple[bytes, ...]():
        yield never


async def test_members_of_one_node_are_no_partners_and_say_so(agents: Fleet) -> None:
    await training(agents, f"few-{KIB}", within_node=False)
    await eventually(lambda: "no_partner" in agents.log(0))
    await eventually(lambda: agents.step(0) > 2 * FEW[-1])
    assert replicated(agents, 0) is None
