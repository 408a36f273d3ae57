"""What flusher and indexer do with the snapshots of a test's workers, done by the test."""

from pathlib import Path

from everstep_checkpoint.slots import SlotPair, Word
from everstep_checkpoint.storage import Storage
from everstep_contract.manifest import Manifest, ShardFile, ShardKind, checkpoint_name
from everstep_contract.record import GenerationStart
from support.jobs import NOW
from support.places import attempt_of, write_shard
from support.trainees import JOB, LINEAGE, TrainingJob


class Saver:
    """Makes durable what workers say is due.

    Args:
        job: Whose workers.
        root: Where checkpoints lie.
    """

    def __init__(self, job: TrainingJob, root: Path) -> None:
        self._job = job
        self.storage = Storage(root)

    def save(
        self, numbers: list[int], step: int, history: tuple[GenerationStart, ...] = ()
    ) -> Manifest:
        """Wait until each of these workers, in rank order, says that it is due, and commit it."""
        (due, *_) = self._job.until_told("checkpoint_due", numbers, step=step)
        folder = attempt_of(self.storage, due.generation, step, lineage=LINEAGE, job=JOB)
        shards = [self._write(folder, numbers[0], "state", step)]
        shards += [self._write(folder, number, "rank", step) for number in numbers]
        manifest = Manifest(
            job=JOB,
            checkpoint=checkpoint_name(due.generation, step),
            lineage=LINEAGE,
            generation=due.generation,
            step=step,
            world_size=len(numbers),
            shards=tuple(shards),
            history=history,
            committed_at=NOW,
        )
        self.storage.commit(manifest)
        return manifest

    def _write(self, folder: Path, number: int, kind: ShardKind, step: int) -> ShardFile:
        pair = self._job.slots[number][kind == "rank"]
        slot, word = _slot_of(pair, step)
        file = f"{kind}-{word.shard:05d}-of-{word.shards:05d}-worker-{number}.safetensors"
        chunks = pair.read(slot, word, memoryview(bytearray(1 << 20)))
        written = write_shard(folder, file, chunks)
        return written.model_copy(update={"kind": kind, "shard": word.shard})


def _slot_of(pair: SlotPair, step: int) -> tuple[int, Word]:
    return next((slot, word) for slot, word in pair.ready() if word.step == step)
