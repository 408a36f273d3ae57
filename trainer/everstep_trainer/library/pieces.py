"""Tensors as the pieces of a shard: the format's names of types, and views into a shard's bytes."""

from collections.abc import Mapping
from typing import Final

import torch
from everstep_checkpoint.layout import Layout, Piece

from everstep_trainer.library.errors import UnstorableStateError

TORCH_TYPES: Final[Mapping[str, torch.dtype]] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES: Final = {dtype: name for name, dtype in TORCH_TYPES.items()}


def piece_of(name: str, tensor: torch.Tensor, offsets: tuple[int, ...] = ()) -> Piece:
    """What a tensor is in a shard; ``offsets`` say where in the whole it begins.

    Raises:
        UnstorableStateError: The format has no such type of element.
    """
    if tensor.dtype not in _NAMES:
        raise UnstorableStateError(name, str(tensor.dtype))
    return Piece(name, _NAMES[tensor.dtype], tuple(tensor.shape), offsets)


def views(memory: torch.Tensor, layout: Layout) -> dict[str, torch.Tensor]:
    """The tensors of a shard whose bytes are ``memory``, by name; they share it.

    Args:
        memory: (at least ``layout.total_bytes``,) of uint8.
        layout: Of that shard.
    """
    found = {}
    for piece in layout.pieces:
        at = layout.places[piece.name]
        raw = memory[at : at + piece.total_bytes]
        found[piece.name] = raw.view(TORCH_TYPES[piece.dtype]).view(piece.shape)
    return found
