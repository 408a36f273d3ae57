"""Cut a shard into reads of bounded size, each of whole boxes of its tensors."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

from everstep_checkpoint.layout import DTYPE_BYTES, Layout

ALONE_BYTES: Final = 1 << 20
"""Parts of this size are read by themselves, so that they can be read to where they belong."""


@dataclass(frozen=True)
class Part:
    """A box of a tensor whose bytes lie in one run, from byte ``at`` of the file on."""

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
    """What is read at once: neighbours in a file, at least one."""

    parts: tuple[Part, ...]

    @property
    def begin(self) -> int:
        """Its first byte in the file."""
        return self.parts[0].at

    @property
    def total_bytes(self) -> int:
        """Of all parts."""
        return self.parts[-1].at + self.parts[-1].total_bytes - self.begin


def chunks(layout: Layout, limit_bytes: int) -> Iterator[Chunk]:
    """All of a shard after its header, in order and without gaps, in reads of bounded size."""
    waiting: list[Part] = []
    for part in _parts(layout, limit_bytes):
        if waiting and (
            max(part.total_bytes, waiting[-1].total_bytes) >= ALONE_BYTES
            or part.at + part.total_bytes - waiting[0].at > limit_bytes
        ):
            yield Chunk(tuple(waiting))
            waiting = []
        waiting.append(part)
    if waiting:
        yield Chunk(tuple(waiting))


def _parts(layout: Layout, limit_bytes: int) -> Iterator[Part]:
    at = len(layout.header)
    for piece in layout.pieces:
        for offsets, shape in _bands(piece.shape, limit_bytes // DTYPE_BYTES[piece.dtype]):
            where = tuple(map(sum, zip(piece.offsets, offsets, strict=True)))
            part = Part(piece.name, piece.dtype, where, shape, at)
            yield part
            at += part.total_bytes


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
