"""Bring safetensors files in as a committed checkpoint that a job can start from."""

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import torch
from everstep_checkpoint.errors import UnfitError
from everstep_checkpoint.layout import DCP_SHARDING_KEY, STATE_KEY
from everstep_checkpoint.media import Key
from everstep_checkpoint.storage import Storage
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest, ShardFile, checkpoint_name
from safetensors import SafetensorError, safe_open

from everstep_trainer.exporting import write_safetensors
from everstep_trainer.library.tree import Packed, Tensors, pack

SUFFIX: Final = ".safetensors"
FILE: Final = f"state-00000-of-00001-imported{SUFFIX}"
PICKLES: Final = frozenset((".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".distcp"))
GENERATION: Final = 0
"""Of an import: older than whatever the job itself will save."""


@dataclass(frozen=True)
class Wanted:
    """What the checkpoint is to be.

    Attributes:
        job: Whose.
        lineage: The uid of the job that is to start from it.
        step: Completed optimizer steps in it.
        tracked_as: The name by which the job tracks the object that these tensors are of; None if
            the files tell, as those do that Everstep exported whole.
    """

    job: JobKey
    lineage: str
    step: int
    tracked_as: str | None = None


def import_checkpoint(storage: Storage, source: Path, wanted: Wanted, at: datetime) -> Manifest:
    """Make a checkpoint of a safetensors file, or of a folder of them, and read it back.

    A folder may be sharded as transformers or ``torch.distributed.checkpoint`` shard theirs. Needs
    memory for the whole state. No pickle is ever read.

    Args:
        storage: Where it is to lie.
        source: The file or folder.
        wanted: What it is to be.
        at: Now.

    Raises:
        UnfitError: The source is a pickle, is damaged, lacks a part of a tensor, or does not tell
            what its tensors are of; or the job has this checkpoint already.
        StorageFullError: There is no room.
    """
    packed = _packed(source, wanted)
    manifest = Manifest(
        job=wanted.job,
        checkpoint=checkpoint_name(GENERATION, wanted.step),
        lineage=wanted.lineage,
        generation=GENERATION,
        step=wanted.step,
        shards=(_shard(storage, wanted, packed),),
        committed_at=at,
    )
    storage.commit(manifest)
    storage.verify(manifest)
    storage.mark(manifest, verified_at=at)
    return manifest


def _shard(storage: Storage, wanted: Wanted, packed: Packed) -> ShardFile:
    attempt = storage.attempt(wanted.job, wanted.lineage, GENERATION, wanted.step)
    listed, _ = storage.listed(wanted.job)
    known = (wanted.lineage, checkpoint_name(GENERATION, wanted.step))
    if known in [(one.manifest.lineage, one.manifest.checkpoint) for one in listed]:
        raise UnfitError(storage.where(Key()), f"{wanted.job} has a checkpoint {known[1]} already")
    return write_safetensors(storage.medium, attempt / FILE, packed)


def _packed(source: Path, wanted: Wanted) -> Packed:
    """The state in the files: as Everstep exported it, or one object's tensors from elsewhere."""
    files = _files(source)
    try:
        with ExitStack() as stack:
            opened = [stack.enter_context(safe_open(file, framework="pt")) for file in files]
            tensors = _whole_tensors(source, opened)
            text = (opened[0].metadata() or {}).get(STATE_KEY, "null")
    except (SafetensorError, ValueError, KeyError) as error:
        raise UnfitError(str(source), f"it cannot be read: {error}") from error
    if text != "null" and wanted.tracked_as is None:
        return Packed(text, tensors)
    if wanted.tracked_as is None:
        raise UnfitError(str(source), "it does not tell what its tensors are of: name the object")
    return pack({wanted.tracked_as: tensors}, wanted.tracked_as)


def _files(source: Path) -> list[Path]:
    """What is to be opened, which never runs anything; a pickle is refused by its name."""
    files = sorted(source.glob(f"*{SUFFIX}")) if source.is_dir() else [source]
    pickles = [source] if source.suffix in PICKLES else sorted(_pickles_in(source))
    if pickles and not (source.is_dir() and files):
        raise UnfitError(
            str(pickles[0]), "a pickle, which can run anything when it is read: refused"
        )
    if not files:
        raise UnfitError(str(source), f"no {SUFFIX} file is in it")
    return files


def _pickles_in(source: Path) -> Iterator[Path]:
    return (path for path in source.glob("*") if path.suffix in PICKLES)


def _whole_tensors(source: Path, opened: Sequence[Any]) -> Tensors:
    """Put together what may lie in several files, by the offsets that their headers tell."""
    parts: dict[str, list[tuple[tuple[int, ...], torch.Tensor]]] = {}
    for file in opened:
        told = json.loads((file.metadata() or {}).get(DCP_SHARDING_KEY, "{}"))
        for name in file.keys():  # noqa: SIM118  # it is no mapping
            tensor = file.get_tensor(name)
            offsets = told.get(name, {}).get("saved_offsets") or [0] * tensor.dim()
            parts.setdefault(name, []).append((tuple(offsets), tensor))
    return {name: _together(source, name, found) for name, found in parts.items()}


def _together(
    source: Path, name: str, parts: Sequence[tuple[tuple[int, ...], torch.Tensor]]
) -> torch.Tensor:
    if len(parts) == 1 and not any(parts[0][0]):
        return parts[0][1]
    ends = [
        tuple(offset + size for offset, size in zip(offsets, part.shape, strict=True))
        for offsets, part in parts
    ]
    whole = torch.empty(tuple(map(max, zip(*ends, strict=True))), dtype=parts[0][1].dtype)
    filled = torch.zeros(whole.shape, dtype=torch.bool)
    for (offsets, part), end in zip(parts, ends, strict=True):
        place = tuple(map(slice, offsets, end))
        if filled[place].any():
            raise UnfitError(str(source), f"two files hold the same part of tensor {name!r}")
        whole[place], filled[place] = part, True
    if not filled.all():
        raise UnfitError(str(source), f"a part of tensor {name!r} is in none of its files")
    return whole
