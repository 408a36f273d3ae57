"""Snapshots in memory and what is made durable of them, with real processes that are killed."""

import asyncio
import os
import random
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from everstep_contract.facts.checkpoint import SaveFailed, ShardPrepared
from everstep_contract.manifest import ShardFile
from everstep_trainer.agent.inputs import Terminate
from everstep_trainer.agent.model import Limits
from support.agent_core import seat
from support.agent_home import AgentHome, agent_home, gone
from support.fake_worker import NUMBER, content
from support.places import verify_shard
from support.polling import eventually
from support.small_disk import small_disk

KILLED_KIB = 8192
"""Large enough for a kill to come in the middle of a copy or of a file."""


async def stepping(home: AgentHome, generation: int = 1) -> None:
    """Ready, ordered to run, and some steps on."""
    await home.reaches("ready")
    await home.order(generation)
    await home.reaches("stepping", generation)
    await eventually(lambda: home.report.step > 20)


async def saved(home: AgentHome, kind: str = "state", step: int = 0) -> ShardPrepared:
    """The first shard of this kind that is told to be durable, of this step or a later one."""

    def told() -> list[ShardPrepared]:
        return [fact for fact in prepared(home) if fact.kind == kind and fact.step >= step]

    await eventually(told)
    return told()[0]


def prepared(home: AgentHome) -> list[ShardPrepared]:
    return home.events(ShardPrepared)


def require_sound(fact: ShardPrepared) -> None:
    """The file is what was told, and every number in it is its step."""
    path = Path(fact.path)
    shard = ShardFile(file=path.name, total_bytes=fact.total_bytes, xxh3_128=fact.xxh3_128)
    verify_shard(path.parent, shard)
    data = path.read_bytes()
    assert data == content(fact.step, fact.shard) * (len(data) // NUMBER.size)


async def test_a_state_survives_the_kill_of_its_worker_in_the_agents_memory(
    tmp_path: Path,
) -> None:
    async with agent_home(tmp_path, "saves-64") as home:
        await stepping(home)
        (worker,) = home.pids
        os.kill(worker, signal.SIGKILL)
        await gone(worker)
        lost_at = int((tmp_path / f"steps-{worker}").read_text())
        await home.order(2)
        await home.reaches("stepping", 2)
        (successor,) = home.pids
        await eventually(lambda: (tmp_path / f"steps-{successor}").read_text())
        assert int((tmp_path / f"steps-{successor}").read_text()) >= lost_at


async def test_what_workers_say_is_due_becomes_durable_shard_by_shard(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "saves-512", nproc=2, storage=tmp_path) as home:
        await stepping(home)
        told = [await saved(home, "state"), await saved(home, "rank")]
        await eventually(lambda: {fact.shard for fact in prepared(home)} == {0, 1})
        for fact in prepared(home):
            require_sound(fact)
        assert told[0].step % 10 == 0
        assert (told[0].shards, told[1].shards) == (1, 2)
        incarnation = home.me.incarnation
        assert Path(told[0].path).name == f"state-00000-of-00001-{incarnation}.safetensors"


async def test_a_lost_member_has_the_newest_snapshot_saved(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "snapshots-512", storage=tmp_path) as home:
        await home.reaches("ready")
        mine = (await home.order(1)).seats
        await home.order(2, seats=(*mine, seat(1)))
        await home.reaches("stepping", 2)
        await eventually(lambda: home.report.step > 20)
        assert prepared(home) == []
        await home.order(3)
        fact = await saved(home)
        assert (fact.generation, fact.step > 20) == (2, True)
        require_sound(fact)


async def test_a_hold_has_the_newest_snapshot_saved(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "snapshots-512", storage=tmp_path) as home:
        await stepping(home)
        await home.order(2, state="hold")
        fact = await saved(home)
        assert fact.step > 20
        require_sound(fact)


async def test_ec45_a_terminated_member_saves_its_newest_snapshot_before_it_goes(
    tmp_path: Path,
) -> None:
    limits = Limits(grace_seconds=20)
    async with agent_home(tmp_path, "snapshots-512", storage=tmp_path, limits=limits) as home:
        await stepping(home)
        home.agent.hear(Terminate("SIGTERM"))
        await eventually(lambda: home.status == 143)
        require_sound(await saved(home))


async def test_ec76_a_stuck_flusher_does_not_keep_its_agent(tmp_path: Path) -> None:
    limits = Limits(grace_seconds=1)
    async with agent_home(tmp_path, "saves-512", storage=tmp_path, limits=limits) as home:
        await stepping(home)
        await saved(home)
        flusher = home.agent.flusher_pid
        os.kill(flusher, signal.SIGSTOP)
        home.agent.hear(Terminate("SIGTERM"))
        await eventually(lambda: home.status == 143)
        await gone(flusher)
        await eventually(lambda: home.events(SaveFailed))
        assert home.events(SaveFailed)[-1].trouble == "abandoned"
        for fact in prepared(home):
            require_sound(fact)


async def test_a_killed_flusher_is_started_again_and_its_shard_is_written_anew(
    tmp_path: Path,
) -> None:
    async with agent_home(tmp_path, "saves-4096", storage=tmp_path) as home:
        await stepping(home)
        before = await saved(home)
        os.kill(home.agent.flusher_pid, signal.SIGKILL)
        after = await saved(home, step=before.step + 1)
        require_sound(after)


async def test_a_job_that_ends_takes_its_flusher_with_it(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "saves-64", storage=tmp_path) as home:
        await stepping(home)
        await saved(home)
        flusher = home.agent.flusher_pid
        home.agent.hear(Terminate("SIGTERM"))
        await eventually(lambda: home.status == 143)
        await gone(flusher)


async def test_a_signal_to_the_whole_group_leaves_the_flusher_to_its_agent(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "saves-512", storage=tmp_path) as home:
        await stepping(home)
        before = await saved(home)
        flusher = home.agent.flusher_pid
        for end in (signal.SIGTERM, signal.SIGINT):
            os.kill(flusher, end)
        await saved(home, step=before.step + 1)
        assert home.agent.flusher_pid == flusher


async def test_ec56_a_full_disk_stops_no_step_and_is_written_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path, mib=5) as disk:
        filler = disk / "others"
        filler.write_bytes(bytes(4 << 20))
        async with agent_home(tmp_path, "saves-2048", storage=disk) as home:
            await stepping(home)
            await eventually(lambda: "full" in {one.trouble for one in home.events(SaveFailed)})
            assert prepared(home) == []
            full_at = home.report.step
            await eventually(lambda: home.report.step > full_at + 20)
            filler.unlink()
            require_sound(await saved(home))


async def test_ec76_the_flusher_grows_no_larger_with_each_save(tmp_path: Path) -> None:
    async with agent_home(tmp_path, "saves-512", storage=tmp_path) as home:
        await stepping(home)
        await eventually(lambda: len(prepared(home)) >= 10)
        flusher, early = home.agent.flusher_pid, resident_bytes(home.agent.flusher_pid)
        await eventually(lambda: len(prepared(home)) >= 200, within_seconds=60)
        assert home.agent.flusher_pid == flusher
        assert resident_bytes(flusher) <= 1.05 * early


def resident_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


async def kill_somebody(home: AgentHome, generation: int, chance: random.Random) -> int:
    """SIGKILL the worker or the flusher at some moment; the generation that runs afterwards."""
    await asyncio.sleep(chance.uniform(0, 0.1))
    if chance.random() < 0.5 and home.agent.flusher_pid:
        with suppress(ProcessLookupError):  # the one killed before, and its agent knows in a moment
            os.kill(home.agent.flusher_pid, signal.SIGKILL)
        return generation
    (worker,) = home.pids
    os.kill(worker, signal.SIGKILL)
    await gone(worker)
    await home.order(generation + 1)
    await home.reaches("stepping", generation + 1)
    return generation + 1


def require_whole_files(folder: Path) -> None:
    """Whatever has a shard's name is whole, told of or not, and is the step that it is named by."""
    for path in folder.rglob("[!.]*.safetensors"):
        step = int(path.parent.name.split("-s")[1].partition("-")[0])
        assert path.read_bytes() == content(step, 0) * (KILLED_KIB * 1024 // NUMBER.size)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("trials", [20, pytest.param(200, marks=pytest.mark.slow)])
async def test_no_kill_of_a_worker_or_a_flusher_makes_a_part_of_a_shard_pass_for_one(
    tmp_path: Path, trials: int
) -> None:
    chance = random.Random(trials)
    limits = Limits(max_restarts=trials)
    behaviour = f"saves-{KILLED_KIB}"
    async with agent_home(tmp_path, behaviour, limits=limits, storage=tmp_path) as home:
        await stepping(home)
        generation = 1
        for _ in range(trials):
            generation = await kill_somebody(home, generation, chance)
            newest = max((fact.step for fact in prepared(home)), default=0)
            await saved(home, step=newest + 1)
        assert len(prepared(home)) >= trials
        for fact in prepared(home):
            require_sound(fact)
        require_whole_files(tmp_path)
        assert {failed.trouble for failed in home.events(SaveFailed)} <= {"overwritten"}
