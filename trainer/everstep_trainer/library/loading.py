"""Load a committed checkpoint: everything read is verified before any of it counts.

Tensors come into scratch memory on the CPU, in one pass that also hashes. Whoever asks gets the
whole state or an error; nothing of the caller's is touched here.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import torch
import xxhash
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.layout import MAX_HEADER_BYTES, Layout, parse_layout
from everstep_checkpoint.media import Key, Medium
from everstep_checkpoint.shards import CHUNK_BYTES
from everstep_checkpoint.storage import Storage
from everstep_contract.manifest import Manifest, ShardFile

from everstep_trainer.library.chunks import chunks
from everstep_trainer.library.errors import CheckpointDiffersError
from everstep_trainer.library.fresh_memory import populated
from everstep_trainer.library.reading import NOBODY, PatientFile, Watch
from everstep_trainer.library.regions import Region, require_whole
from everstep_trainer.library.targets import Targets, buffers

LOG_SECONDS: Final = 5.0
"""Between two lines about a load that goes on."""
_GIB: Final = 1 << 30
_PREFIX_BYTES: Final = 8

log = logging.getLogger("everstep")


@dataclass(frozen=True)
class LoadedState:
    """A verified state.

    Attributes:
        text: What is no tensor, as JSON; of the first shard.
        tensors: By name, on the CPU; the caller's own.
    """

    text: str
    tensors: dict[str, torch.Tensor]


def load_state(
    storage: Storage,
    manifest: Manifest,
    wanted: Mapping[str, Region] | None = None,
    watch: Watch = NOBODY,
) -> LoadedState:
    """Read all that a checkpoint holds of the state, or the regions of it that are wanted.

    Needs memory for the result and for a few chunks.

    Args:
        storage: Where the checkpoint lies.
        manifest: Its manifest.
        wanted: The part of each tensor that this rank holds, of exactly the tensors that there
            are; None for all of them, whole.
        watch: Looks on, and may end it.

    Raises:
        DamagedError: A file is missing, cannot be read, or is not what was written.
        CheckpointDiffersError: The files are good, and are not what is wanted.
    """
    folder = storage.folder(manifest)
    shards = manifest.of_kind("state")
    if not shards or [shard.shard for shard in shards] != list(range(len(shards))):
        why = f"its manifest lists {len(shards)} shards of the state, not all"
        raise DamagedError(storage.where(folder), why)
    progress = _Progress(manifest, sum(shard.total_bytes for shard in shards), watch)
    files = [_File(storage.medium, folder / shard.file, shard, progress) for shard in shards]
    layouts = [file.layout() for file in files]
    try:
        found = require_whole(layouts, wanted)
    except CheckpointDiffersError:
        for file, layout in zip(files, layouts, strict=True):
            file.verify(layout)  # a flipped bit in a header must not pass for another structure
        raise
    largest = max(shard.total_bytes for shard in shards)
    targets = Targets(found, buffers(min(CHUNK_BYTES, largest)))
    with populated(targets.tensors.values()):
        for file, layout in zip(files, layouts, strict=True):
            plan = list(chunks(layout, CHUNK_BYTES))
            read = file.verified(layout, map(targets.memory_for, plan))
            for memory, chunk in zip(read, plan, strict=True):
                targets.take(memory, chunk)
    return LoadedState(layouts[0].state, targets.tensors)


def load_rank(storage: Storage, manifest: Manifest, rank: int, watch: Watch = NOBODY) -> str | None:
    """What a rank saved for itself, as JSON; None if the checkpoint has nothing of that rank.

    Raises:
        DamagedError: The file is missing, cannot be read, or is not what was written.
    """
    own = [shard for shard in manifest.of_kind("rank") if shard.shard == rank]
    if not own:
        return None
    key = storage.folder(manifest) / own[0].file
    progress = _Progress(manifest, own[0].total_bytes, watch)
    file = _File(storage.medium, key, own[0], progress)
    layout = file.layout()
    file.verify(layout)
    return layout.state


class _Progress:
    """How far a load is: told to the caller at once, and to the log now and then."""

    def __init__(self, manifest: Manifest, total_bytes: int, watch: Watch) -> None:
        self.silence_seconds = watch.silence_seconds
        self._what = f"step {manifest.step} of generation {manifest.generation}"
        self._total_bytes = total_bytes
        self._guard = watch.guard
        self._read_bytes = 0
        self._begun_at = self._told_at = time.monotonic()

    def advance(self, count: int = 0) -> None:
        """So many more bytes were read."""
        self._read_bytes += count
        self._guard(self._read_bytes)
        now = time.monotonic()
        if now - self._told_at >= LOG_SECONDS:
            self._told_at = now
            log.info(
                "loading %s: %.1f of %.1f GiB, %.2f GiB/s",
                self._what,
                self._read_bytes / _GIB,
                self._total_bytes / _GIB,
                self._read_bytes / _GIB / (now - self._begun_at),
            )


class _File:
    """A shard as it is on storage, and as its manifest says."""

    def __init__(self, place: Medium, key: Key, shard: ShardFile, progress: _Progress) -> None:
        self._place = place
        self._key = key
        self._where = place.where(key)
        self._shard = shard
        self._progress = progress

    def layout(self) -> Layout:
        """What its header says; that the header is what was written, `verified` tells."""
        with self._opened() as file:
            total_bytes = file.total_bytes()
            if total_bytes != self._shard.total_bytes:
                why = f"{total_bytes} bytes, {self._shard.total_bytes} were written"
                raise DamagedError(self._where, why)
            prefix = file.read(_PREFIX_BYTES)
            length = int.from_bytes(prefix, "little")
            text = file.read(min(length, total_bytes, MAX_HEADER_BYTES))
            return parse_layout(self._where, prefix + text, total_bytes)

    def verified(self, layout: Layout, memory: Iterable[memoryview]) -> Iterator[memoryview]:
        """Read all that comes after the header, and nothing of it counts before the end.

        Args:
            layout: As `layout` has found it.
            memory: Runs of it for all those bytes, taken some reads ahead.

        Yields:
            The same runs, full.

        Raises:
            DamagedError: After the last run: the hash, which takes in the header, is another.
        """
        digest = xxhash.xxh3_128(layout.header)
        self._progress.advance(len(layout.header))
        with self._opened() as file:
            for run in file.stream(len(layout.header), memory):
                digest.update(run)
                yield run
                self._progress.advance(len(run))
        if digest.hexdigest() != self._shard.xxh3_128:
            why = f"its hash is {digest.hexdigest()}, not {self._shard.xxh3_128}"
            raise DamagedError(self._where, why)

    def verify(self, layout: Layout) -> None:
        """Read it to its end for its hash only."""
        begins = range(len(layout.header), layout.total_bytes, CHUNK_BYTES)
        spare = buffers(min(CHUNK_BYTES, layout.total_bytes))
        runs = (next(spare)[: layout.total_bytes - begin] for begin in begins)
        for _ in self.verified(layout, runs):
            pass

    def _opened(self) -> PatientFile:
        progress = self._progress
        return PatientFile(self._place, self._key, progress.advance, progress.silence_seconds)
