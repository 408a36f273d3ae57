"""Checkpoints as a job of so many ranks saves them: whole, or cut up like sharded tensors."""

import json
from itertools import product
from pathlib import Path
from typing import Literal

import torch
from everstep_checkpoint.layout import Piece, lay_out
from everstep_checkpoint.storage import Storage
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest, ShardFile, ShardKind, checkpoint_name
from everstep_contract.record import GenerationStart
from everstep_trainer.library.pieces import piece_of
from everstep_trainer.library.regions import Region
from support.jobs import JOB, NOW
from support.places import attempt_of, folder_of, write_shard

Cut = Literal["whole", "rows", "columns"]
"""whole: all of it is written once, as DDP has it · rows, columns: along the first or the last
dimension, as sharded tensors are; what has no such dimension is rank 0's."""

WORLD_SIZES = (1, 2, 3, 4, 8)
LINEAGE = "uid-1"
WHOLE = {
    "model.weight": torch.arange(48, dtype=torch.float32).reshape(16, 3),
    "model.uneven": torch.arange(7 * 5 * 2, dtype=torch.float64).reshape(7, 5, 2) * 1e-3,
    "model.half": torch.arange(8, dtype=torch.bfloat16),
    "model.mask": torch.tensor([True, False, True, True, False]),
    "model.bytes": torch.arange(11, dtype=torch.uint8),
    "model.nothing": torch.empty(0, 3),
    "optimizer.step": torch.tensor(7),
    "optimizer.odd": torch.tensor([float("nan"), -0.0, float("inf")]),
}


def region(whole: tuple[int, ...], cut: Cut, world_size: int, rank: int) -> Region | None:
    """What a rank holds of a tensor, in the way of torch's `Shard`; None if another has it all."""
    if not whole or cut == "whole":
        return Region(whole, (0,) * len(whole), whole) if rank == 0 else None
    dimension = 0 if cut == "rows" else len(whole) - 1
    length = whole[dimension]
    each = -(-length // world_size)
    begin, end = min(rank * each, length), min((rank + 1) * each, length)
    offsets = tuple(begin if at == dimension else 0 for at in range(len(whole)))
    shape = tuple(end - begin if at == dimension else size for at, size in enumerate(whole))
    return Region(whole, offsets, shape)


def part(tensor: torch.Tensor, where: Region) -> torch.Tensor:
    """The region's elements, in memory of their own."""
    ends = map(sum, zip(where.offsets, where.shape, strict=True))
    return tensor[tuple(map(slice, where.offsets, ends))].clone()


def file_of(kind: ShardKind, shard: int, shards: int) -> str:
    return f"{kind}-{shard:05d}-of-{shards:05d}-a.safetensors"


def write(
    folder: Path, kind: ShardKind, at: tuple[int, int], tensors: dict[Piece, torch.Tensor]
) -> ShardFile:
    """One shard, number ``at[0]`` of ``at[1]``."""
    shard, shards = at
    layout = lay_out(list(tensors), json.dumps({kind: shard}))
    body = [_raw(tensors[piece]).numpy().data for piece in layout.pieces]
    file = file_of(kind, shard, shards)
    written = write_shard(folder, file, [layout.header, *body])
    return written.model_copy(update={"kind": kind, "shard": shard})


def held(
    tensors: dict[str, torch.Tensor], cut: Cut, world_size: int, rank: int
) -> dict[Piece, torch.Tensor]:
    found = {}
    for name, tensor in tensors.items():
        where = region(tuple(tensor.shape), cut, world_size, rank)
        if where is not None:
            mine = part(tensor, where)
            found[piece_of(name, mine, where.offsets)] = mine
    return found


def save(
    root: Path,
    cut: Cut = "whole",
    world_size: int = 1,
    *,
    tensors: dict[str, torch.Tensor] = WHOLE,
    generation: int = 1,
    step: int = 7,
    job: JobKey = JOB,
    history: tuple[GenerationStart, ...] = (),
) -> tuple[Path, Manifest]:
    """A committed checkpoint: where it lies, and its manifest."""
    storage, shards = Storage(root), 1 if cut == "whole" else world_size
    attempt = attempt_of(storage, generation, step, job=job)
    files = [
        write(attempt, "state", (at, shards), held(tensors, cut, shards, at))
        for at in range(shards)
    ]
    files += [write(attempt, "rank", (rank, world_size), {}) for rank in range(world_size)]
    manifest = Manifest(
        job=job,
        checkpoint=checkpoint_name(generation, step),
        lineage=LINEAGE,
        generation=generation,
        step=step,
        world_size=world_size,
        shards=tuple(files),
        history=history,
        committed_at=NOW,
    )
    storage.commit(manifest)
    return folder_of(storage, manifest), manifest


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> bool:
    """Whether both hold the same tensors to the bit, nan included."""
    return found.keys() == expected.keys() and all(
        found[name].dtype == tensor.dtype
        and found[name].shape == tensor.shape
        and torch.equal(_raw(found[name]), _raw(tensor))
        for name, tensor in expected.items()
    )


def _raw(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def moves() -> list[tuple[int, int]]:
    """Every change of a world size."""
    return list(product(WORLD_SIZES, WORLD_SIZES))
