"""Copy state from one rank to those that are behind; always into scratch.

The receiver's own objects are written only after the last byte has come, in one go that nothing
interrupts. So a replica that was whole stays whole when the source dies in mid-copy, and one that
was not stays what it was (R22). The price is one more copy of the state on a receiver meanwhile.
"""

import itertools
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import torch
import torch.distributed as dist

from everstep_trainer.library.tree import Packed

CHUNK_BYTES: Final = 16 << 20
"""Moved by one collective: large enough for the loopback's full speed, small beside the state."""


@dataclass(frozen=True)
class Place:
    """A worker's place in the default group, and where its collectives want their tensors.

    ``local_rank`` is its place in its member, of which there are ``members``.
    """

    rank: int
    world_size: int
    local_rank: int
    device: torch.device
    members: int = 1


@dataclass(frozen=True)
class Route:
    """Who sends to whom: equal sources share the receivers. Every rank takes part in every move."""

    place: Place
    sources: tuple[int, ...]
    receivers: tuple[int, ...]

    @property
    def first_source(self) -> int:
        """The source that describes what is sent."""
        return self.sources[0]

    @property
    def sends(self) -> bool:
        """Whether some receiver copies from this rank."""
        return self.place.rank in self.sources[: len(self.receivers)]

    @property
    def receives(self) -> bool:
        """Whether this rank is behind."""
        return self.place.rank in self.receivers

    def move(self, chunk: torch.Tensor) -> None:
        """Bring the sources' bytes to the receivers; ``chunk`` is scratch on all other ranks."""
        rank, ranks = self.place.rank, range(self.place.world_size)
        if self.sources == (self.first_source,) and len(self.receivers) == len(ranks) - 1:
            dist.broadcast(chunk, self.first_source)
            return
        pairs = set(zip(itertools.cycle(self.sources), self.receivers, strict=False))
        given = [chunk.numel() * ((rank, other) in pairs) for other in ranks]
        taken = [chunk.numel() * ((other, rank) in pairs) for other in ranks]
        outgoing = chunk.repeat(sum(given) // chunk.numel()) if self.sends else chunk[:0]
        incoming = chunk if self.receives else chunk[:0]
        dist.all_to_all_single(incoming, outgoing, taken, given)


def transfer(route: Route, packed: Packed | None) -> Packed | None:
    """Take part in one copy: whoever sends passes what it holds, each receiver gets it back.

    Raises:
        GenerationEnded: An order ended the group meanwhile; nothing of this process has changed.
    """
    described = _encode(packed) if packed else b""
    header = json.loads(tell_all(route.place, route.first_source, described))
    stream = _Stream(header["tensors"])
    sent = list(packed.tensors.values()) if packed else []
    received = stream.empty_tensors() if route.receives else []
    for start in range(0, stream.total_bytes, CHUNK_BYTES):
        size = min(CHUNK_BYTES, stream.total_bytes - start)
        chunk = torch.empty(size, dtype=torch.uint8, device=route.place.device)
        for piece, part in stream.overlaps(sent, start, chunk):
            piece.copy_(part)
        route.move(chunk)
        for piece, part in stream.overlaps(received, start, chunk):
            part.copy_(piece)
    if not route.receives:
        return None
    return Packed(header["text"], dict(zip(header["names"], received, strict=True)))


def gather(place: Place, mine: Sequence[int]) -> list[list[int]]:
    """Every rank's numbers, equally many of each."""
    numbers = torch.tensor(mine, device=place.device)
    every = numbers.new_empty(place.world_size * numbers.numel())
    dist.all_gather_single(every, numbers)
    rows: list[list[int]] = every.view(place.world_size, -1).tolist()
    return rows


def tell_all(place: Place, source: int, text: bytes) -> bytes:
    """The bytes that rank ``source`` has, on every rank; ``text`` is read on that rank only."""
    size = torch.tensor([len(text)], device=place.device)
    dist.broadcast(size, source)
    moved = torch.zeros(int(size), dtype=torch.uint8, device=place.device)
    if place.rank == source:
        moved.copy_(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    dist.broadcast(moved, source)
    return bytes(moved.cpu().numpy())


def _encode(packed: Packed) -> bytes:
    described = [
        (str(tensor.dtype).removeprefix("torch."), list(tensor.shape), tensor.device.type)
        for tensor in packed.tensors.values()
    ]
    header = {"text": packed.text, "names": list(packed.tensors), "tensors": described}
    return json.dumps(header).encode()


class _Stream:
    """Tensors one after the other, as bytes.

    ``described`` has one (type, shape, kind of device) a tensor.
    """

    def __init__(self, described: Sequence[tuple[str, list[int], str]]) -> None:
        self._described = [(getattr(torch, kind), shape, on) for kind, shape, on in described]
        self._bytes = [torch.Size(shape).numel() * t.itemsize for t, shape, _ in self._described]
        *self._offsets, self.total_bytes = itertools.accumulate(self._bytes, initial=0)

    def empty_tensors(self) -> list[torch.Tensor]:
        """Scratch for all of it."""
        return [torch.empty(shape, dtype=kind, device=on) for kind, shape, on in self._described]

    def overlaps(
        self, tensors: Sequence[torch.Tensor], start: int, chunk: torch.Tensor
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Pairs of a piece of ``chunk``, which begins at ``start``, and the tensor's part there."""
        end = start + chunk.numel()
        for at in range(max(0, bisect_right(self._offsets, start) - 1), len(tensors)):
            offset = self._offsets[at]
            if offset >= end:
                return
            low, high = max(start, offset), min(end, offset + self._bytes[at])
            if low < high:
                part = tensors[at].contiguous().reshape(-1).view(torch.uint8)
                yield chunk[low - start : high - start], part[low - offset : high - offset]
