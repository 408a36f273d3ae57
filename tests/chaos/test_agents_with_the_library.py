"""Real agents, the real library, real groups: the losses that a member's agent and workers heal.

The test orders what a rescaler would.
"""

import os
import signal
import time
from pathlib import Path

from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.facts.member import MemberFormed, MemberLeft
from everstep_contract.facts.worker import WorkerExited
from everstep_contract.manifest import ShardFile
from everstep_trainer.page import VOUCHED_SECONDS
from support.agent_fleet import Fleet
from support.places import layout_in, verify_shard
from support.polling import eventually

TINY_TRAINING = Path(__file__).parents[1] / "support" / "tiny_training.py"


async def training(agents: Fleet, members: int, *more: str, nproc: int = 1, **changes: str) -> None:
    """So many members, some steps into generation 1; ``changes`` to their environment."""
    for _ in range(members):
        script = (str(TINY_TRAINING), str(agents.folder), *more)
        await agents.start_script("--nproc-per-node", str(nproc), *script, **changes)
    await agents.all_are("ready", 0)
    await agents.order(1, tuple(range(members)))
    await stepping(agents, 1, *range(members))


async def stepping(agents: Fleet, generation: int, *members: int) -> None:
    """All of these have taken some steps of this generation."""
    await agents.all_are("stepping", generation, *members)
    begun = [agents.step(index) for index in members]
    await eventually(
        lambda: all(agents.step(index) > step for index, step in zip(members, begun, strict=True))
    )


def digests(folder: Path, *killed: int) -> dict[int, set[str]]:
    """What the weights were after each step, on every rank and in every life.

    Without the last step of a killed worker: the others may have been in the middle of it still,
    and then took it anew without its data.
    """
    found: dict[int, set[str]] = {}
    for notes in folder.glob("tiny-*"):
        lines = notes.read_text().splitlines()
        if notes.name in {f"tiny-{pid}" for pid in killed}:
            lines.pop()
        for line in lines:
            _, step, _, digest = line.split()
            found.setdefault(int(step), set()).add(digest)
    return found


async def test_ec11_survivors_of_the_stores_agent_go_on_in_their_processes(agents: Fleet) -> None:
    await training(agents, 3)
    killed, before = agents.pids(0), agents.pids(1) + agents.pids(2)
    agents.agents[0].send_signal(signal.SIGKILL)
    await agents.order(2, (1, 2))
    await stepping(agents, 2, 1, 2)
    assert agents.pids(1) + agents.pids(2) == before
    assert {formed.steps_lost for formed in agents.events(MemberFormed)} == {0}
    assert all(len(seen) == 1 for seen in digests(agents.folder, *killed).values())


async def test_a_killed_worker_comes_back_with_the_others_state(agents: Fleet) -> None:
    await training(agents, 2, nproc=2)
    killed, sibling = agents.pids(0)
    os.kill(killed, signal.SIGKILL)
    await eventually(lambda: agents.events(WorkerExited, 0))
    await agents.order(2, (0, 1), restart=(agents.seat(0).member.incarnation,))
    await stepping(agents, 2, 0, 1)
    assert agents.pids(0)[1] == sibling
    assert {formed.steps_lost for formed in agents.events(MemberFormed)} == {0}
    assert all(len(seen) == 1 for seen in digests(agents.folder).values())


async def test_r20_a_held_job_goes_on_where_it_was(agents: Fleet) -> None:
    await training(agents, 2)
    before = agents.pids(0) + agents.pids(1)
    await agents.order(2, (0, 1), state="hold")
    await agents.all_are("holding", 2)
    held_at = max(agents.step(0), agents.step(1))  # one may have been a step ahead
    await agents.order(3, (0, 1))
    await stepping(agents, 3, 0, 1)
    assert agents.pids(0) + agents.pids(1) == before
    formed = [event for event in agents.events(MemberFormed) if event.generation == 3]
    assert {event.agreed_step for event in formed} == {held_at}


async def test_r19_a_newcomer_takes_its_state_from_the_living(agents: Fleet) -> None:
    await training(agents, 2)
    arguments = (str(TINY_TRAINING), str(agents.folder))
    await agents.start_script(*arguments)
    await agents.all_are("ready", 1, 2)
    await agents.order(2, (0, 1, 2))
    await stepping(agents, 2, 0, 1, 2)
    assert {formed.steps_lost for formed in agents.events(MemberFormed)} == {0}
    assert all(len(seen) == 1 for seen in digests(agents.folder).values())


async def test_ec12_a_frozen_members_peers_leave_and_it_never_steps_again(agents: Fleet) -> None:
    await training(agents, 3)
    frozen = [agents.agents[2].pid, *agents.pids(2)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    await agents.order(2, (0, 1))
    await stepping(agents, 2, 0, 1)
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)
    await agents.all_are("ready", 2, 2)
    rows = [line.split() for line in steps_of(agents.folder, agents.pids(2)[0])]
    assert {row[0] for row in rows} == {"1"}


async def test_ec12_a_member_frozen_before_its_optimizer_steps_does_not_step_when_let_go(
    agents: Fleet,
) -> None:
    await training(agents, 3)
    agent, (worker,) = agents.agents[2], agents.pids(2)
    hold, held = (agents.folder / f"{word}-{worker}" for word in ("hold", "held"))
    hold.touch()
    await eventually(held.exists)  # all collectives of its step are done
    before = steps_of(agents.folder, worker)
    for pid in (agent.pid, worker):
        os.kill(pid, signal.SIGSTOP)
    silent_since = time.monotonic()
    await agents.order(2, (0, 1))
    await stepping(agents, 2, 0, 1)
    # nobody is left out for silence sooner than this; the test's order waited for no silence
    await eventually(lambda: time.monotonic() - silent_since > VOUCHED_SECONDS)
    hold.unlink()
    os.kill(worker, signal.SIGCONT)  # first, so that nobody can have told it anything
    await eventually(lambda: not held.exists())
    agent.send_signal(signal.SIGCONT)
    await agents.all_are("ready", 2, 2)
    assert steps_of(agents.folder, worker) == before
    report = agents.report(2)
    assert report is not None
    assert [held.version for held in report.workers] == [len(before)]


def steps_of(folder: Path, pid: int) -> list[str]:
    """One worker's notes."""
    return (folder / f"tiny-{pid}").read_text().splitlines()


async def test_ec45_a_job_whose_members_are_terminated_saves_the_step_that_it_has_come_to(
    agents: Fleet,
) -> None:
    checkpoints = agents.folder / "checkpoints"
    checkpoints.mkdir()
    await training(agents, 2, EVERSTEP_CHECKPOINT_ROOT=str(checkpoints))
    seen = agents.step(0)
    for agent in agents.agents:
        agent.send_signal(signal.SIGTERM)
    await eventually(lambda: len(agents.events(MemberLeft)) == 2)

    def saved() -> set[str]:
        return {fact.kind for fact in agents.events(ShardPrepared) if fact.step >= seen}

    await eventually(lambda: saved() == {"state", "rank"})


async def test_what_all_members_make_durable_of_a_step_is_one_whole_checkpoint(
    agents: Fleet,
) -> None:
    checkpoints = agents.folder / "checkpoints"
    checkpoints.mkdir()
    await training(agents, 2, "20", EVERSTEP_CHECKPOINT_ROOT=str(checkpoints))

    def whole() -> list[dict[tuple[str, int], ShardPrepared]]:
        steps: dict[int, dict[tuple[str, int], ShardPrepared]] = {}
        for fact in agents.events(ShardPrepared):
            steps.setdefault(fact.step, {})[fact.kind, fact.shard] = fact
        return [shards for shards in steps.values() if len(shards) == 3]

    await eventually(whole, within_seconds=60)
    shards = whole()[0]
    assert set(shards) == {("state", 0), ("rank", 0), ("rank", 1)}
    (folder,) = {Path(fact.path).parent for fact in shards.values()}
    for fact in shards.values():
        name = Path(fact.path).name
        shard = ShardFile(file=name, total_bytes=fact.total_bytes, xxh3_128=fact.xxh3_128)
        verify_shard(folder, shard)
        layout_in(folder / name)
