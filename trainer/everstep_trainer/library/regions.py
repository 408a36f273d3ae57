"""Boxes within tensors: which one a rank needs, and whether those in files make a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import torch
from everstep_checkpoint.layout import Layout, Piece
from torch.distributed.tensor import DTensor

from everstep_trainer.library.errors import CheckpointDiffersError


@dataclass(frozen=True)
class Region:
    """A box within a tensor of shape ``whole``; it begins at ``offsets`` and has ``shape``.

    Raises:
        ValueError: It is not within it.
    """

    whole: tuple[int, ...]
    offsets: tuple[int, ...]
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        both = zip(self.offsets, self.shape, self.whole, strict=True)
        if not all(0 <= offset <= offset + size <= length for offset, size, length in both):
            raise ValueError(f"{self.shape} at {self.offsets} is not within {self.whole}")


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
