"""The agent's end of its flusher: deaths, hangs, and what becomes of the slots it keeps."""

import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest
from everstep_checkpoint.slots import Word
from everstep_trainer.agent import flushing
from everstep_trainer.agent.flushing import MAX_DEATHS, Flushing, Shelf
from everstep_trainer.agent.inputs import Input, ShardUnwritten, ShardWritten
from everstep_trainer.agent.memory import Memory
from everstep_trainer.agent.snapshots import Snapshot
from support.agent_core import Core
from support.agent_home import gone
from support.polling import eventually

BYTES = 1 << 20


class Desk:
    """One worker's memory, a flusher for it, and what was heard of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.memory = Memory(Core().state.me)
        self.pair = self.memory.workers[0].state
        self.pair.resize(BYTES)
        self.heard: list[Input] = []
        self.shelf = Shelf(str(folder), Core().state.me)
        self.flushing = Flushing(self.shelf, self.memory, self.heard.append)

    def keep(self, step: int) -> Snapshot:
        """A snapshot of this step, in the next free slot."""
        slot = self.pair.begin()
        assert slot is not None
        self.pair.finish(slot, Word(0, "ready", 1, step, 0, 1, BYTES))
        return self.memory.snapshots()[0]

    async def write(self, snapshot: Snapshot) -> int:
        """Have it written; the process that is about to."""
        self.flushing.write(snapshot, 0.0)
        await eventually(lambda: self.flushing.pid)
        return self.flushing.pid

    @property
    def can_take_a_snapshot(self) -> bool:
        return self.pair.begin() is not None


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    """Ends with its flusher gone."""
    desk = Desk(tmp_path)
    yield desk
    pid = desk.flushing.pid
    desk.flushing.stop()
    if pid:
        await gone(pid)
    desk.memory.close()


async def test_a_snapshot_is_kept_until_it_is_durable_and_then_let_go(desk: Desk) -> None:
    flusher = await desk.write(desk.keep(1))
    os.kill(flusher, signal.SIGSTOP)
    desk.keep(2)
    assert not desk.can_take_a_snapshot
    os.kill(flusher, signal.SIGCONT)
    await eventually(lambda: desk.heard)
    assert isinstance(desk.heard[0], ShardWritten)
    assert desk.can_take_a_snapshot


async def test_a_flusher_gives_way_to_training_and_knows_no_torch(desk: Desk) -> None:
    flusher = psutil.Process(await desk.write(desk.keep(1)))
    await eventually(lambda: desk.heard)
    assert flusher.nice() == 10
    assert flusher.ionice().value == 7
    assert not [mapped for mapped in flusher.memory_maps() if "torch" in mapped.path]


async def test_all_that_is_asked_for_at_once_is_held_at_once(desk: Desk) -> None:
    older, newer = desk.keep(1), desk.keep(2)
    for snapshot in (newer, older):
        desk.flushing.write(snapshot, 0.0)
    assert not desk.can_take_a_snapshot
    await eventually(lambda: len(desk.heard) == 2)
    assert {type(told) for told in desk.heard} == {ShardWritten}


async def test_what_may_wait_is_held_and_lets_what_is_due_go_first(desk: Desk) -> None:
    waiting, due = desk.keep(1), desk.keep(2)
    desk.flushing.write(waiting, 0.0, time.monotonic() + 0.5)
    desk.flushing.write(due, 0.0)
    await eventually(lambda: desk.heard)
    assert not desk.can_take_a_snapshot
    await eventually(lambda: len(desk.heard) == 2)
    told = [one.snapshot for one in desk.heard if isinstance(one, ShardWritten)]
    assert told == [due, waiting]
    assert desk.can_take_a_snapshot


async def test_what_is_gone_from_memory_is_told_as_written_over(desk: Desk) -> None:
    first = desk.keep(1)
    desk.keep(2)
    desk.keep(3)
    desk.flushing.write(first, 0.0)
    (told,) = desk.heard
    assert isinstance(told, ShardUnwritten)
    assert told.trouble == "overwritten"


async def test_a_shard_over_which_flushers_die_again_and_again_is_given_up(desk: Desk) -> None:
    dead: set[int] = set()
    desk.flushing.write(desk.keep(1), 0.0)
    for _ in range(MAX_DEATHS):
        await eventually(lambda: desk.flushing.pid)
        dying = desk.flushing.pid
        os.kill(dying, signal.SIGKILL)
        await gone(dying)
        dead.add(dying)
        await eventually(lambda: desk.flushing.pid not in dead)
    (told,) = desk.heard
    assert isinstance(told, ShardUnwritten)
    assert told.detail == f"the flusher died {MAX_DEATHS} times over it"
    assert desk.can_take_a_snapshot


async def test_a_flusher_that_hangs_is_replaced_and_the_next_shard_is_written(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "STUCK_SECONDS", 0.1)
    hanging = await desk.write(desk.keep(1))
    os.kill(hanging, signal.SIGSTOP)
    desk.flushing.write(desk.keep(2), 0.0)
    await eventually(lambda: desk.heard)
    monkeypatch.undo()  # the next one may take its time to start
    await eventually(lambda: len(desk.heard) == 2)
    await gone(hanging)
    failed, written = desk.heard
    assert isinstance(failed, ShardUnwritten)
    assert failed.detail.startswith("nothing was written for")
    assert isinstance(written, ShardWritten)
    assert written.snapshot.step == 2


async def test_a_stopped_flusher_tells_nothing_more(desk: Desk) -> None:
    pid = await desk.write(desk.keep(1))
    os.kill(pid, signal.SIGSTOP)
    desk.flushing.stop()
    await gone(pid)
    assert desk.heard == []
    assert desk.can_take_a_snapshot


async def test_a_root_that_is_gone_is_not_made_anew_where_it_was(tmp_path: Path) -> None:
    """Else a job whose storage was unmounted would find no checkpoints there, and begin anew."""
    desk = Desk(tmp_path / "unmounted")
    flusher = await desk.write(desk.keep(1))
    await eventually(lambda: desk.heard)
    (heard,) = desk.heard
    assert isinstance(heard, ShardUnwritten)
    assert heard.trouble == "unwritable"
    assert not desk.folder.exists()
    desk.flushing.stop()
    await gone(flusher)
    desk.memory.close()
