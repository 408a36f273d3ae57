"""Where workers keep their snapshots: memory of the agent's, which outlives each of their lives."""

from dataclasses import dataclass

from everstep_checkpoint.slots import SlotPair


@dataclass(frozen=True)
class WorkerMemory:
    """Two pairs of slots: of the state that ranks share or split up, and of what is one rank's."""

    state: SlotPair
    rank: SlotPair

    @classmethod
    def create(cls, local_rank: int) -> "WorkerMemory":
        """Room for nothing yet; the worker knows how large its shards are."""
        return cls(SlotPair.create(f"state-{local_rank}"), SlotPair.create(f"rank-{local_rank}"))

    def close(self) -> None:
        """Let go; a worker or flusher that still lives keeps it for itself."""
        self.state.close()
        self.rank.close()
