"""Copy state from one rank to those that are behind; always into scratch.

The receiver's own objects are written only after the last byte has come, in one go that nothing
interrupts. So a replica that was whole stays whole when the source dies in mid-copy, and one that
was not stays what it was (R22). The price is one more copy of the state on a receiver meanwhile.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

import torch
import torch.distributed as dist

from everstep_trainer.library.tree import Packed

CHUNK_BYTES: Final = 16 << 20
"""Moved by one collective: large enough for the loopback's full speed, small beside the state."""

ALIGNMENT_BYTES: Final = 16
"""Each tensor begins at a multiple of this, so that its bytes can be looked at as its type."""


@dataclass(frozen=True)
class Place:
    """A worker's place in the default group, and where its collectives want their tensors."""

    rank: int
    world_size: int
    device: torch.device


@dataclass(frozen=True)
class Route:
    """Who sends to whom; every rank takes part in every move."""

    place: Place
    source: int
    receivers: tuple[int, ...]

    @property
    def sends(self) -> bool:
        """Whether this rank is the source."""
        return self.place.rank == self.source

    @property
    def receives(self) -> bool:
        """Whether this rank is behind."""
        return self.place.rank in self.receivers

    def move(self, chunk: torch.Tensor) -> None:
        """Bring the source's bytes to the receivers; ``chunk`` is scratch on all other ranks."""
        ranks = range(self.place.world_size)
        if len(self.receivers) == len(ranks) - 1:
            dist.broadcast(chunk, self.source)
            return
        outgoing = chunk.repeat(len(self.receivers)) if self.sends else chunk[:0]
        incoming = chunk if self.receives else chunk[:0]
        given = [chunk.numel() * (self.sends and rank in self.receivers) for rank in ranks]
        taken = [incoming.numel() * (rank == self.source) for rank in ranks]
        dist.all_to_all_single(incoming, outgoing, taken, given)


def transfer(route: Route, packed: Packed | None) -> Packed | None:
    """Take part in one copy: the source passes what it holds, each receiver gets it back.

    Raises:
        GenerationEnded: An order ended the group meanwhile; nothing of this process has changed.
    """
    header = _encode(packed) if packed else b""
    size = torch.tensor([len(header)], device=route.place.device)
    dist.broadcast(size, route.source)
    text = torch.zeros(int(size), dtype=torch.uint8, device=route.place.device)
    if packed:
        text.copy_(torch.frombuffer(bytearray(header), dtype=torch.uint8))
    dist.broadcast(text, route.source)
    described = json.loads(bytes(text.cpu().numpy()))
    layout = _Layout(described["tensors"])
    scratch = torch.empty(layout.total_bytes if route.receives else 0, dtype=torch.uint8)
    for start in range(0, layout.total_bytes, CHUNK_BYTES):
        end = min(start + CHUNK_BYTES, layout.total_bytes)
        chunk = torch.empty(end - start, dtype=torch.uint8, device=route.place.device)
        if packed:
            layout.read(packed.tensors, start, chunk)
        route.move(chunk)
        scratch[start:end].copy_(chunk[: end - start if route.receives else 0])
    return Packed(described["text"], layout.tensors_in(scratch)) if route.receives else None


class _Layout:
    """Where each tensor lies in the stream of bytes.

    ``described`` has one (type, shape, kind of device) a tensor.
    """

    def __init__(self, described: Sequence[Sequence[Any]]) -> None:
        self._described = described
        self._bytes = [_bytes_of(kind, shape) for kind, shape, _ in described]
        *self._offsets, self.total_bytes = accumulate(map(_aligned, self._bytes), initial=0)

    def read(self, tensors: Sequence[torch.Tensor], start: int, chunk: torch.Tensor) -> None:
        """Fill ``chunk`` with the stream's bytes from ``start``."""
        end = start + chunk.numel()
        first = max(0, bisect_right(self._offsets, start) - 1)
        for at in range(first, len(tensors)):
            offset = self._offsets[at]
            low, high = max(start, offset), min(end, offset + self._bytes[at])
            if offset >= end:
                return
            if low < high:
                bytes_of_it = tensors[at].contiguous().reshape(-1).view(torch.uint8)
                chunk[low - start : high - start] = bytes_of_it[low - offset : high - offset]

    def tensors_in(self, stream: torch.Tensor) -> list[torch.Tensor]:
        """The tensors in a whole stream, as views of it where the device allows."""
        return list(self._views(stream))

    def _views(self, stream: torch.Tensor) -> Iterator[torch.Tensor]:
        for offset, size, (kind, shape, device) in zip(
            self._offsets, self._bytes, self._described, strict=True
        ):
            part = stream[offset : offset + size].view(getattr(torch, kind))
            yield part.reshape(shape).to(device)


def _encode(packed: Packed) -> bytes:
    described = [
        (str(tensor.dtype).removeprefix("torch."), list(tensor.shape), tensor.device.type)
        for tensor in packed.tensors
    ]
    return json.dumps({"text": packed.text, "tensors": described}).encode()


def _bytes_of(kind: str, shape: Sequence[int]) -> int:
    dtype: torch.dtype = getattr(torch, kind)
    return dtype.itemsize * torch.Size(shape).numel()


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
