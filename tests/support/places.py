"""Checkpoints in local folders, by paths that a test can look at and damage."""

from collections.abc import Iterable
from pathlib import Path

from everstep_checkpoint import shards
from everstep_checkpoint.folder import Folder
from everstep_checkpoint.layout import Layout, read_layout
from everstep_checkpoint.media import Key
from everstep_checkpoint.storage import Storage
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest, ShardFile
from support.checkpoints import LINEAGE
from support.jobs import JOB


def folder_of(storage: Storage, manifest: Manifest) -> Path:
    """Where a committed checkpoint lies."""
    return Path(storage.where(storage.folder(manifest)))


def attempt_of(
    storage: Storage, generation: int, step: int, *, lineage: str = LINEAGE, job: JobKey = JOB
) -> Path:
    """The folder that shards of this save are written into."""
    return Path(storage.where(storage.attempt(job, lineage, generation, step)))


def write_shard(folder: Path, file: str, chunks: Iterable[memoryview | bytes]) -> ShardFile:
    """A shard in a folder below another one, which is made."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    place = Folder(folder.parent)
    return shards.write_shard(place, Key(folder.name) / file, chunks)


def verify_shard(folder: Path, shard: ShardFile) -> None:
    """Read it back."""
    shards.verify_shard(Folder(folder), Key(shard.file), shard)


def layout_in(path: Path) -> Layout:
    """Of a shard."""
    return read_layout(Folder(path.parent), Key(path.name))


def storage_of(folder: Path) -> Storage:
    """Where a checkpoint's folder lies."""
    return Storage(folder.parent.parent)
