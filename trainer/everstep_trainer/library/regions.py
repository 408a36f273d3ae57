"""Boxes within tensors: who needs which part, whether parts make a whole, how a file holds them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from everstep_checkpoint.layout import DTYPE_BYTES, Layout, Piece
from torch.distributed.tensor import DTensor

from everstep_trainer.library.errors import CheckpointDiffersError


@dataclass(frozen=True)
class Region:
    """A box within a tensor of shape ``whole``; it begins at ``offsets`` and has ``shape``."""

    whole: tuple[int, ...]
    offsets: tuple[int, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """A box of a tensor whose bytes lie in one run, ``at`` bytes after the begin of its chunk."""

    name: str
    dtype: str
    offsets: tuple[int, ...]
    shape: tuple[int, ...]
    at: int

    @property
    def total_bytes(self) -> int:
        """Of its elements."""
        return prod(self.shape) * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Chunk:
    """What is read at once: ``size`` bytes of a file from ``begin`` on, and what lies in them."""

    begin: int
    size: int
    parts: tuple[Part, ...]


def region_of(tensor: torch.Tensor) -> Region:
    """Which part of the whole this rank holds: of a DTensor its shard, of any other all of it."""
    whole = tuple(tensor.shape)
    if not isinstance(tensor, DTensor):
        return Region(whole, (0,) * len(whole), whole)
    # what stock checkpoints ask a DTensor as well
    (chunk,) = tensor.__create_chunk_list__()  # type: ignore[no-untyped-call]  # torch's
    return Region(whole, tuple(chunk.offsets), tuple(chunk.sizes))


def require_whole(
    layouts: Sequence[Layout], wanted: Mapping[str, Region] | None
) -> dict[str, tuple[str, Region]]:
    """What is to be read: the type and the region of each tensor, by name.

    Args:
        layouts: Of all shards of the state.
        wanted: The regions of exactly the tensors that there must be; None for all, each whole.

    Raises:
        CheckpointDiffersError: A tensor is missing, or not wanted, or of another shape, or its
            pieces do not hold each of its elements once.
    """
    pieces: dict[str, list[Piece]] = {}
    for piece in (piece for layout in layouts for piece in layout.pieces):
        pieces.setdefault(piece.name, []).append(piece)
    if wanted is None:
        wanted = {name: _extent(name, found) for name, found in pieces.items()}
    for name in sorted(pieces.keys() ^ wanted.keys()):
        raise CheckpointDiffersError(name, "is missing" if name in wanted else "is not wanted")
    for name, found in pieces.items():
        _require_each_once(name, found, wanted[name].whole)
    return {name: (found[0].dtype, wanted[name]) for name, found in pieces.items()}


def chunks(layout: Layout, limit_bytes: int) -> Iterator[Chunk]:
    """All of a shard after its header, in order and without gaps, in reads of bounded size."""
    begin, at, parts = len(layout.header), 0, list[Part]()
    for piece in layout.pieces:
        for offsets, shape in _bands(piece.shape, limit_bytes // DTYPE_BYTES[piece.dtype]):
            where = tuple(map(sum, zip(piece.offsets, offsets, strict=True)))
            part = Part(piece.name, piece.dtype, where, shape, at)
            if at + part.total_bytes > limit_bytes:
                yield Chunk(begin, at, tuple(parts))
                begin, at, parts = begin + at, 0, []
                part = Part(piece.name, piece.dtype, where, shape, at)
            parts.append(part)
            at += part.total_bytes
    if parts:
        yield Chunk(begin, at, tuple(parts))


def scatter(raw: torch.Tensor, part: Part, region: Region, target: torch.Tensor) -> None:
    """Copy what a part and a region have in common to where it belongs.

    Args:
        raw: The part in its shape and type.
        part: Where it lies in the whole.
        region: Where ``target`` lies in the whole.
        target: Of the region's shape and the part's type.
    """
    source, goal = list[slice](), list[slice]()
    for size, offset, wanted, begins in zip(
        part.shape, part.offsets, region.shape, region.offsets, strict=True
    ):
        low, high = max(offset, begins), min(offset + size, begins + wanted)
        if low >= high:
            return
        source.append(slice(low - offset, high - offset))
        goal.append(slice(low - begins, high - begins))
    target[tuple(goal)].copy_(raw[tuple(source)])


def _extent(name: str, pieces: Sequence[Piece]) -> Region:
    """The smallest whole that the pieces fit in."""
    ends = [_end(name, piece) for piece in pieces]
    if len({len(end) for end in ends}) != 1:
        raise CheckpointDiffersError(name, "has pieces of different dimensions")
    whole = tuple(map(max, zip(*ends, strict=True)))
    return Region(whole, (0,) * len(whole), whole)


def _end(name: str, piece: Piece) -> tuple[int, ...]:
    numbers = (*piece.shape, *piece.offsets)
    if len(piece.offsets) != len(piece.shape) or any(
        type(number) is not int or number < 0 for number in numbers
    ):
        raise CheckpointDiffersError(name, f"has a piece {piece.shape} at {piece.offsets}")
    return tuple(map(sum, zip(piece.offsets, piece.shape, strict=True)))


def _require_each_once(name: str, pieces: Sequence[Piece], whole: tuple[int, ...]) -> None:
    """Boxes within the whole that do not overlap and have its volume together are the whole."""
    if len({piece.dtype for piece in pieces}) != 1:
        raise CheckpointDiffersError(name, "has pieces of different types")
    extent = _extent(name, pieces).whole
    if extent != whole:
        raise CheckpointDiffersError(name, f"has shape {extent}, not {whole}")
    held, needed = sum(prod(piece.shape) for piece in pieces), prod(whole)
    if held < needed:
        raise CheckpointDiffersError(name, f"has {held} of its {needed} elements")
    if held > needed or _overlap([piece for piece in pieces if prod(piece.shape)]):
        raise CheckpointDiffersError(name, "has elements that are there twice")


def _overlap(pieces: Sequence[Piece]) -> bool:
    """Whether two boxes share an element; swept along the first dimension."""
    open_pieces: list[Piece] = []
    for piece in sorted(pieces, key=lambda one: one.offsets):
        begin = piece.offsets[:1]
        open_pieces = [one for one in open_pieces if begin and _last(one) >= begin[0]]
        if any(_share(one, piece) for one in open_pieces):
            return True
        open_pieces.append(piece)
    return False


def _last(piece: Piece) -> int:
    return piece.offsets[0] + piece.shape[0] - 1


def _share(one: Piece, other: Piece) -> bool:
    return all(
        max(mine, theirs) < min(mine + size, theirs + length)
        for mine, size, theirs, length in zip(
            one.offsets, one.shape, other.offsets, other.shape, strict=True
        )
    )


def _bands(shape: tuple[int, ...], limit: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Cut a box into smaller ones, in order, each of which lies in one run of at most ``limit``.

    Yields:
        Offsets and shape of each; nothing for a box without elements.
    """
    if not prod(shape):
        return
    axis, run = len(shape), 1
    while axis > 0 and run * shape[axis - 1] <= limit:
        axis -= 1
        run *= shape[axis]
    if axis == 0:
        yield (0,) * len(shape), shape
        return
    cut, inner, rows = axis - 1, shape[axis:], limit // run
    for outer in itertools.product(*map(range, shape[:cut])):
        for begin in range(0, shape[cut], rows):
            offsets = (*outer, begin, *(0,) * len(inner))
            yield offsets, ((1,) * cut + (min(rows, shape[cut] - begin), *inner))
