"""Where a checkpoint's tensors are read to: scratch memory on the CPU, filled chunk by chunk."""

import itertools
from collections.abc import Iterator, Mapping

import torch

from everstep_trainer.library.chunks import Chunk, Part
from everstep_trainer.library.pieces import TORCH_TYPES
from everstep_trainer.library.reading import READ_AHEAD
from everstep_trainer.library.regions import Region


def buffers(size: int) -> Iterator[memoryview]:
    """As many as a stream of reads needs at once, again and again."""
    return itertools.cycle(memoryview(bytearray(size)) for _ in range(READ_AHEAD + 1))


class Targets:
    """Tensors that are being read.

    What goes where it belongs as it is, is read to there; all else comes by a buffer.

    Args:
        wanted: Type and region of each tensor, by name.
        spare: Memory for chunks, each large enough for any of them.
    """

    def __init__(
        self, wanted: Mapping[str, tuple[str, Region]], spare: Iterator[memoryview]
    ) -> None:
        self._regions = {name: region for name, (_, region) in wanted.items()}
        self._spare = spare
        self.tensors = {
            name: torch.empty(region.shape, dtype=TORCH_TYPES[dtype], device="cpu")
            for name, (dtype, region) in wanted.items()
        }

    def memory_for(self, chunk: Chunk) -> memoryview:
        """Where to read a chunk to."""
        landing = self._landing(chunk)
        if landing is None:
            return next(self._spare)[: chunk.total_bytes]
        return landing.numpy().data

    def take(self, memory: memoryview, chunk: Chunk) -> None:
        """A chunk was read to the memory that was given for it."""
        if self._landing(chunk) is not None:
            return
        raw = torch.frombuffer(memory, dtype=torch.uint8)
        for part in chunk.parts:
            begin = part.at - chunk.begin
            elements = raw[begin : begin + part.total_bytes].view(TORCH_TYPES[part.dtype])
            self._scatter(elements.view(part.shape), part)

    def _landing(self, chunk: Chunk) -> torch.Tensor | None:
        """The bytes that a chunk is to become, if they are one run of one tensor."""
        part = chunk.parts[0]
        common = _common(part, self._regions[part.name])
        if len(chunk.parts) > 1 or common is None:
            return None
        place = self.tensors[part.name][common[1]]
        if place.shape != part.shape or not place.is_contiguous():
            return None
        return place.reshape(-1).view(torch.uint8)

    def _scatter(self, elements: torch.Tensor, part: Part) -> None:
        common = _common(part, self._regions[part.name])
        if common is not None:
            source, goal = common
            self.tensors[part.name][goal].copy_(elements[source])


def _common(part: Part, region: Region) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """What both have, as slices of the part and of the region; None if that is nothing."""
    source, goal = list[slice](), list[slice]()
    for size, offset, wanted, begins in zip(
        part.shape, part.offsets, region.shape, region.offsets, strict=True
    ):
        low, high = max(offset, begins), min(offset + size, begins + wanted)
        if low >= high:
            return None
        source.append(slice(low - offset, high - offset))
        goal.append(slice(low - begins, high - begins))
    return tuple(source), tuple(goal)
