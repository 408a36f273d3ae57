"""What an agent sees in the memory of its workers."""

from collections.abc import Iterator

import pytest
from everstep_checkpoint.slots import Word
from everstep_trainer.agent.memory import WorkerMemory
from everstep_trainer.agent.snapshots import Snapshot

BYTES = 4096


@pytest.fixture
def memory() -> Iterator[WorkerMemory]:
    """Of local rank 1, with room for shards of `BYTES`."""
    memory = WorkerMemory.create(1)
    memory.state.resize(BYTES)
    memory.rank.resize(BYTES)
    yield memory
    memory.close()


def word(step: int, *, shard: int = 0, shards: int = 1, total_bytes: int = BYTES) -> Word:
    return Word(0, "ready", 1, step, shard, shards, total_bytes)


def test_it_sees_what_is_whole_of_every_kind_and_whose_it_is(memory: WorkerMemory) -> None:
    memory.state.finish(0, word(7))
    memory.rank.finish(1, word(8, shard=5, shards=8))
    memory.rank.begin()
    assert set(memory.snapshots()) == {
        Snapshot(1, "state", 1, 7, 0, 1, BYTES),
        Snapshot(1, "rank", 1, 8, 5, 8, BYTES),
    }


def test_a_snapshot_is_found_while_it_is_there(memory: WorkerMemory) -> None:
    memory.state.finish(0, word(7))
    (snapshot,) = memory.snapshots()
    found = memory.find(snapshot)
    assert found is not None
    assert found[:2] == (memory.state, 0)
    memory.state.finish(0, word(8))
    assert memory.find(snapshot) is None


@pytest.mark.parametrize(
    "impossible",
    [
        word(-1),
        word(1, shard=3, shards=3),
        word(1, shard=-1),
        word(1, total_bytes=0),
        word(1, total_bytes=BYTES + 1),
    ],
)
def test_a_word_that_cannot_be_true_is_not_believed(memory: WorkerMemory, impossible: Word) -> None:
    memory.state.finish(0, impossible)
    assert memory.snapshots() == ()
