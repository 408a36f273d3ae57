"""The bytes of a shard: a safetensors file that also tells where its pieces belong.

Stock `safetensors` opens it, and stock `torch.distributed.checkpoint` reads a folder of them at any
world size (`HuggingFaceStorageReader`), because each header carries DCP's sharding metadata. What
is no tensor (scheduler, random states, step) is JSON in the same header. No pickle anywhere.

The format: 8 bytes little-endian length of the header, the header as JSON, then all tensors without
gaps (https://huggingface.co/docs/safetensors). Headers are padded to a page, and wider elements
come first, so that every tensor is aligned where the file is mapped.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

from everstep_checkpoint.errors import DamagedError

PAGE_BYTES: Final = 4096
MAX_HEADER_BYTES: Final = 100_000_000
"""What safetensors itself accepts."""
STATE_KEY: Final = "everstep"
"""Where in the header's metadata the JSON of everything that is no tensor lies."""
DCP_VERSION: Final = {"DCP_VERSION": "1.0"}
DCP_SHARDING_KEY: Final = "DCP_SHARDING_INFO"
DTYPE_BYTES: Final[Mapping[str, int]] = {
    "F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1,
    "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Bytes of an element, by safetensors' name of its type."""
_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True)
class Piece:
    """A tensor, or this shard's part of one: ``offsets`` say where in the whole it begins."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    offsets: tuple[int, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Of its elements.

        Raises:
            ValueError: Its type is none that the format has.
        """
        if self.dtype not in DTYPE_BYTES:
            raise ValueError(
                f"tensor {self.name!r} has type {self.dtype!r}, which has no name here"
            )
        return prod(self.shape) * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class Layout:
    """Where everything lies in a shard.

    Attributes:
        header: The first bytes of the file, its length prefix included.
        places: Of each piece, its first byte in the file.
        total_bytes: Of the file.
        state: What is no tensor, as JSON.
    """

    header: bytes
    pieces: tuple[Piece, ...]
    places: Mapping[str, int]
    total_bytes: int
    state: str


def lay_out(pieces: Sequence[Piece], state: str) -> Layout:
    """Plan a shard; the same arguments give the same bytes.

    Raises:
        ValueError: Two pieces have one name, or one has a type that the format lacks.
    """
    names = [piece.name for piece in pieces]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two tensors are called {twice[0]!r}")
    ordered = tuple(sorted(pieces, key=lambda p: (-_element_bytes(p), p.name)))
    fields: dict[str, Any] = {
        "__metadata__": {
            "format": "pt",
            **DCP_VERSION,
            DCP_SHARDING_KEY: json.dumps({p.name: {"saved_offsets": _offsets(p)} for p in ordered}),
            STATE_KEY: state,
        }
    }
    begins, end = {}, 0
    for piece in ordered:
        begins[piece.name] = end
        end += piece.total_bytes
        place = [begins[piece.name], end]
        fields[piece.name] = {"dtype": piece.dtype, "shape": piece.shape, "data_offsets": place}
    text = json.dumps(fields).encode()
    text += b" " * (-(_LENGTH.size + len(text)) % PAGE_BYTES)
    header = _LENGTH.pack(len(text)) + text
    places = {name: len(header) + begin for name, begin in begins.items()}
    return Layout(header, ordered, places, len(header) + end, state)


def read_layout(path: Path) -> Layout:
    """The layout of a shard that lies on storage.

    Raises:
        DamagedError: It is no shard, or not all of one.
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        length = _header_bytes(path, file.read(_LENGTH.size))
        text = file.read(length)
    total_bytes = path.stat().st_size
    if len(text) != length:
        raise DamagedError(path, f"its header of {length} bytes is cut off")
    try:
        fields = json.loads(text)
        state = str(fields.pop("__metadata__")[STATE_KEY])
        offsets = json.loads(json.loads(text)["__metadata__"][DCP_SHARDING_KEY])
        pieces = tuple(
            Piece(
                name, field["dtype"], tuple(field["shape"]), tuple(offsets[name]["saved_offsets"])
            )
            for name, field in fields.items()
        )
        layout = lay_out(pieces, state)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(path, f"its header cannot be read: {error!r}") from None
    if layout.header != _LENGTH.pack(length) + text:
        raise DamagedError(path, "its header is not what a shard of these tensors has")
    if layout.total_bytes != total_bytes:
        raise DamagedError(path, f"{total_bytes} bytes, its header says {layout.total_bytes}")
    return layout


def _header_bytes(path: Path, prefix: bytes) -> int:
    if len(prefix) < _LENGTH.size:
        raise DamagedError(path, f"only {len(prefix)} bytes: no shard")
    (length,) = _LENGTH.unpack(prefix)
    if length > MAX_HEADER_BYTES:
        raise DamagedError(path, f"a header of {length} bytes: no shard")
    return int(length)


def _element_bytes(piece: Piece) -> int:
    return DTYPE_BYTES.get(piece.dtype, 0)


def _offsets(piece: Piece) -> list[int]:
    return list(piece.offsets or (0,) * len(piece.shape))
