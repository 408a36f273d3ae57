"""Take checkpoints out for tools that know nothing of Everstep, verified while they are read."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from everstep_checkpoint.errors import DamagedError, UnfitError
from everstep_checkpoint.folder import Folder
from everstep_checkpoint.layout import lay_out
from everstep_checkpoint.media import Key, Medium
from everstep_checkpoint.shards import CHUNK_BYTES, write_shard
from everstep_checkpoint.storage import Storage
from everstep_contract.manifest import Manifest, ShardFile

from everstep_trainer.library.loading import load_state
from everstep_trainer.library.pieces import piece_of
from everstep_trainer.library.tree import Packed, pack, unpack
from everstep_trainer.torch_formats import stock_state


def export_dcp(storage: Storage, manifest: Manifest, target: Path) -> None:
    """Copy the shards of the state into a new folder, as they lie.

    Stock ``torch.distributed.checkpoint.load`` reads it with `HuggingFaceStorageReader`, at any
    world size. What each rank had for itself stays behind: no stock tool knows it.

    Args:
        storage: Where the checkpoint lies.
        manifest: Which one.
        target: A folder that does not exist.

    Raises:
        DamagedError: A shard is not what was written; there is no folder.
        UnfitError: There is something in the target's place.
    """
    with _all_or_nothing(target) as part:
        for shard in manifest.of_kind("state"):
            source = storage.folder(manifest) / shard.file
            chunks = _chunks(storage.medium, source)
            written = write_shard(Folder(part.parent), Key(part.name) / shard.file, chunks)
            if (written.total_bytes, written.xxh3_128) != (shard.total_bytes, shard.xxh3_128):
                raise DamagedError(storage.where(source), "it is not what was written")


def export_safetensors(
    storage: Storage, manifest: Manifest, target: Path, only: str | None = None
) -> None:
    """Write all tensors, whole and under their names, into one safetensors file.

    The rest of the state (scheduler, counters) is JSON under "everstep" in its metadata, so that
    it can be imported again. Needs memory for the whole state.

    Args:
        storage: Where the checkpoint lies.
        manifest: Which one.
        target: A file that does not exist.
        only: The tracked object whose tensors alone are wanted, under their own names, as a
            model's ``load_state_dict`` takes them.

    Raises:
        DamagedError: The checkpoint is not what was written; there is no file.
        UnfitError: It has no such object, or there is something in the target's place.
    """
    _require_new(target)
    packed = _loaded(storage, manifest)
    if only is not None:
        tensors = pack(_object(manifest, packed, only), only).tensors
        packed = Packed("null", tensors)
    write_safetensors(Folder(target.parent), Key(target.name), packed)


def export_torch(
    storage: Storage, manifest: Manifest, target: Path, only: str | None = None
) -> None:
    """Write the state as nested dictionaries by ``torch.save``, for tools that take nothing else.

    The file is a pickle: whoever loads it should do so with ``weights_only=True``. Everstep itself
    never reads one. Needs memory for the whole state.

    Raises:
        DamagedError: The checkpoint is not what was written; there is no file.
        UnfitError: It has no such object, or there is something in the target's place.
    """
    with _all_or_nothing(target) as part:
        packed = _loaded(storage, manifest)
        state = (
            {name: stock_state(one) for name, one in unpack(packed).items()}
            if only is None
            else stock_state(_object(manifest, packed, only))
        )
        torch.save(state, part)


def write_safetensors(place: Medium, key: Key, packed: Packed) -> ShardFile:
    """One file with all of a state; its tensors are copied one at a time if need be."""
    pieces = [piece_of(name, tensor) for name, tensor in packed.tensors.items()]
    layout = lay_out(pieces, packed.text)
    raw = (_raw(packed.tensors[piece.name]) for piece in layout.pieces)
    return write_shard(place, key, (layout.header, *raw))


def _loaded(storage: Storage, manifest: Manifest) -> Packed:
    state = load_state(storage, manifest)
    return Packed(state.text, state.tensors)


def _object(manifest: Manifest, packed: Packed, name: str) -> Any:
    state = unpack(packed)
    if name not in state:
        known = ", ".join(map(str, state))
        raise UnfitError(manifest.checkpoint, f"it has no object {name!r}, only {known}")
    return state[name]


def _raw(tensor: torch.Tensor) -> memoryview:
    memory: memoryview = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return memory


def _chunks(place: Medium, key: Key) -> Iterator[memoryview]:
    buffer = memoryview(bytearray(CHUNK_BYTES))
    try:
        with place.open(key) as file:
            while count := file.readinto(buffer):
                yield buffer[:count]
    except OSError as error:
        raise DamagedError(place.where(key), error.strerror or repr(error)) from error


@contextmanager
def _all_or_nothing(target: Path) -> Iterator[Path]:
    """Where to write what gets its name once it is whole."""
    _require_new(target)
    part = target.with_name(f".{target.name}.part")
    try:
        yield part
        part.rename(target)
    finally:
        if part.is_dir():
            shutil.rmtree(part)
        part.unlink(missing_ok=True)


def _require_new(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        raise UnfitError(str(target), "it is there already")
