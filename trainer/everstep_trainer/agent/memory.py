"""Where snapshots lie: memory of the agent's, which outlives each life of each worker."""

from dataclasses import dataclass, replace

from everstep_checkpoint.slots import SlotPair, Word
from everstep_contract.manifest import ShardKind

from everstep_trainer.agent.model import Me
from everstep_trainer.agent.replicas import Replicas
from everstep_trainer.agent.snapshots import Snapshot

Found = tuple[SlotPair, int, Word]
"""A pair of slots, which of them, and what it holds."""


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
            replace(
                _snapshot(self.local_rank, kind, word),
                marked=self.of(kind).is_marked(slot, word),
            )
            for kind in kinds
            for slot, word in self.of(kind).ready()
            if _is_sound(word, self.of(kind))
        )

    def find(self, snapshot: Snapshot) -> Found | None:
        """Where it lies; None if it has been written over."""
        pair = self.of(snapshot.kind)
        for slot, word in pair.ready():
            if _snapshot(self.local_rank, snapshot.kind, word) == snapshot:
                return pair, slot, word
        return None

    def close(self) -> None:
        """Let go; a worker or flusher that still lives keeps it for itself."""
        self.state.close()
        self.rank.close()


class Memory:
    """All snapshots that an agent has: its workers', and what it keeps for its peers."""

    def __init__(self, me: Me) -> None:
        ranks = range(me.gang.nproc_per_node)
        self.workers = tuple(WorkerMemory.create(local_rank) for local_rank in ranks)
        self.replicas = Replicas(me.replication.limit_bytes)

    def snapshots(self) -> tuple[Snapshot, ...]:
        """What is whole."""
        own = (snapshot for worker in self.workers for snapshot in worker.snapshots())
        return (*own, *self.replicas.snapshots())

    def ask(self, every: int) -> None:
        """Have workers mark a snapshot each so many steps."""
        for worker in self.workers:
            worker.state.ask(every)
            worker.rank.ask(every)

    def find(self, snapshot: Snapshot) -> Found | None:
        """Where it lies; None if it has been written over."""
        if snapshot.origin:
            return self.replicas.find(snapshot)
        return self.workers[snapshot.local_rank].find(snapshot)

    def close(self) -> None:
        """Let go of all."""
        for worker in self.workers:
            worker.close()
        self.replicas.close()


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
