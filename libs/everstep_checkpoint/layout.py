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
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from math import prod
from typing import Any, Final

from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.media import Key, Medium

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
_METADATA: Final = "__metadata__"
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
        state_at: Where in the header the state stands, padded with spaces to ``state_bytes``.
    """

    header: bytes
    pieces: tuple[Piece, ...]
    places: Mapping[str, int]
    total_bytes: int
    state: str
    state_at: int
    state_bytes: int

    def room_for(self, state: str) -> bytes | None:
        """What stands from `state_at` on, `state_bytes` long, if the state is another one.

        So the header of the same tensors with another state costs no more than that state. None if
        there is no room for it.
        """
        text = json.dumps(state).encode()
        return text.ljust(self.state_bytes) if len(text) <= self.state_bytes else None


def lay_out(pieces: Sequence[Piece], state: str, *, header_bytes: int = 0) -> Layout:
    """Plan a shard; the same arguments give the same bytes.

    Args:
        pieces: Its tensors, in any order.
        state: What is no tensor, as JSON.
        header_bytes: The least that the header has, so that other states find room in it.

    Raises:
        ValueError: Two pieces have one name, or one has a name or type that the format lacks; or
            nobody could read the header, so large is it.
    """
    counts = Counter(piece.name for piece in pieces)
    for name, count in counts.items():
        if count > 1:
            raise ValueError(f"two tensors are called {name!r}")
    if _METADATA in counts:
        raise ValueError(f"no tensor can be called {_METADATA!r}")
    ordered = tuple(sorted(pieces, key=lambda p: (-_element_bytes(p), p.name)))
    fields: dict[str, Any] = {}
    begins, end = {}, 0
    for piece in ordered:
        begins[piece.name] = end
        end += piece.total_bytes
        place = [begins[piece.name], end]
        fields[piece.name] = {"dtype": piece.dtype, "shape": piece.shape, "data_offsets": place}
    before, after = _frame(ordered, fields)
    text = json.dumps(state).encode()
    least = len(before) + len(text) + len(after)
    size = max(header_bytes, least)
    padded = text.ljust(len(text) + size + -size % PAGE_BYTES - least)
    if len(before) + len(padded) + len(after) > MAX_HEADER_BYTES:
        raise ValueError(
            f"what is no tensor takes {len(text)} bytes as JSON, and with the names of "
            f"{len(pieces)} tensors no more than {MAX_HEADER_BYTES} are possible"
        )
    header = before + padded + after
    header = _LENGTH.pack(len(header) - _LENGTH.size) + header[_LENGTH.size :]
    places = {name: len(header) + begin for name, begin in begins.items()}
    return Layout(header, ordered, places, len(header) + end, state, len(before), len(padded))


def _frame(ordered: Sequence[Piece], fields: Mapping[str, Any]) -> tuple[bytes, bytes]:
    """What stands before the state in the header, from its length on, and what stands after."""
    metadata = {
        "format": "pt",
        **DCP_VERSION,
        DCP_SHARDING_KEY: json.dumps({p.name: {"saved_offsets": _offsets(p)} for p in ordered}),
    }
    before = f'{{"{_METADATA}": {json.dumps(metadata)[:-1]}, "{STATE_KEY}": '
    after = f"}}, {json.dumps(fields)[1:]}" if fields else "}}"
    return bytes(_LENGTH.size) + before.encode(), after.encode()


def read_layout(place: Medium, key: Key) -> Layout:
    """The layout of a shard that lies on storage.

    Raises:
        DamagedError: It is no shard, or not all of one.
        OSError: It cannot be read.
    """
    where = place.where(key)
    with BufferedReader(place.open(key)) as file:
        prefix = file.read(_LENGTH.size)
        text = file.read(_text_bytes(where, prefix))
    return parse_layout(where, prefix + text, place.size(key))


def parse_layout(source: str, begin: bytes | memoryview, total_bytes: int) -> Layout:
    """The layout of a shard that begins with these bytes; there may be more than its header.

    Args:
        source: What errors call it.
        begin: At least the whole header.
        total_bytes: Of the shard.

    Raises:
        DamagedError: It is no shard, or not all of one.
    """
    length = _text_bytes(source, bytes(begin[: _LENGTH.size]))
    text = bytes(begin[_LENGTH.size : _LENGTH.size + length])
    if len(text) != length:
        raise DamagedError(source, f"its header of {length} bytes is cut off")
    try:
        fields = json.loads(text)
        metadata = fields.pop(_METADATA)
        offsets = json.loads(metadata[DCP_SHARDING_KEY])
        pieces = tuple(
            Piece(
                name, field["dtype"], tuple(field["shape"]), tuple(offsets[name]["saved_offsets"])
            )
            for name, field in fields.items()
        )
        state = str(metadata[STATE_KEY])
        layout = lay_out(pieces, state, header_bytes=_LENGTH.size + length)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(source, f"its header cannot be read: {error!r}") from None
    if layout.header != _LENGTH.pack(length) + text:
        raise DamagedError(source, "its header is not what a shard of these tensors has")
    if layout.total_bytes != total_bytes:
        raise DamagedError(source, f"{total_bytes} bytes, its header says {layout.total_bytes}")
    return layout


def _text_bytes(where: str, prefix: bytes) -> int:
    if len(prefix) < _LENGTH.size:
        raise DamagedError(where, f"only {len(prefix)} bytes: no shard")
    (length,) = _LENGTH.unpack(prefix)
    if length > MAX_HEADER_BYTES:
        raise DamagedError(where, f"a header of {length} bytes: no shard")
    return int(length)


def _element_bytes(piece: Piece) -> int:
    return DTYPE_BYTES.get(piece.dtype, 0)


def _offsets(piece: Piece) -> list[int]:
    return list(piece.offsets or (0,) * len(piece.shape))
