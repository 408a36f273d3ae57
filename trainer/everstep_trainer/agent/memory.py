"""Where workers keep their snapshots: memory of the agent's, which outlives each of their lives."""

from collections.abc import Iterable
from dataclasses import dataclass

from everstep_checkpoint.slots import SlotPair, Word
from everstep_contract.manifest import ShardKind

from everstep_trainer.agent.snapshots import Snapshot


@dataclass(frozen=True)
class WorkerMemory:
    """Two pairs of slots: of the state that ranks share or split up, and of what is one rank's."""

    local_rank: int
    state: SlotPair
    rank: SlotPair

    @classmethod
    def create(cls, local_rank: int) -> "WorkerMemory":
        """Room for nothing yet; the worker knows how large its shards are."""
        state, rank = (SlotPair.create(f"{kind}-{local_rank}") for kind in ("state", "rank"))
        return cls(local_rank, state, rank)

    def of(self, kind: ShardKind) -> SlotPair:
        """The pair that holds shards of this kind."""
        return self.state if kind == "state" else self.rank

    def snapshots(self) -> tuple[Snapshot, ...]:
        """What is whole."""
        kinds: tuple[ShardKind, ...] = ("rank", "state")
        return tuple(
            _snapshot(self.local_rank, kind, word)
            for kind in kinds
            for _, word in self.of(kind).ready()
            if _is_sound(word, self.of(kind))
        )

    def find(self, snapshot: Snapshot) -> tuple[int, Word] | None:
        """The slot that holds it, with its word; None if it has been written over."""
        for slot, word in self.of(snapshot.kind).ready():
            if _snapshot(self.local_rank, snapshot.kind, word) == snapshot:
                return slot, word
        return None

    def close(self) -> None:
        """Let go; a worker or flusher that still lives keeps it for itself."""
        self.state.close()
        self.rank.close()


def seen(memory: Iterable[WorkerMemory]) -> tuple[Snapshot, ...]:
    """What is whole in the memory of all workers."""
    return tuple(snapshot for worker in memory for snapshot in worker.snapshots())


def _snapshot(local_rank: int, kind: ShardKind, word: Word) -> Snapshot:
    return Snapshot(
        local_rank=local_rank,
        kind=kind,
        generation=word.generation,
        step=word.step,
        shard=word.shard,
        shards=word.shards,
        total_bytes=word.total_bytes,
    )


def _is_sound(word: Word, pair: SlotPair) -> bool:
    """Whether a word can be true: the memory is the worker's to spoil."""
    numbers_are_sound = 0 <= word.shard < word.shards and word.generation >= 0 and word.step >= 0
    return numbers_are_sound and 0 < word.total_bytes <= pair.slot_bytes
