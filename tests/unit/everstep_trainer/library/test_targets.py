"""Where chunks of a shard are read to."""

import itertools

import pytest
import torch
from everstep_checkpoint.layout import lay_out, parse_layout
from everstep_trainer.library.chunks import chunks
from everstep_trainer.library.pieces import piece_of
from everstep_trainer.library.regions import Region
from everstep_trainer.library.targets import Targets, buffers
from hypothesis import given
from hypothesis import strategies as st

LIMIT_BYTES = 64
SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)


def read(values: torch.Tensor, region: Region) -> tuple[torch.Tensor, int]:
    """The region of a tensor, read from a shard of it; and how many chunks came by a buffer."""
    planned = lay_out([piece_of("w", values)], "{}")
    layout = parse_layout("shard", planned.header, planned.total_bytes)
    file = planned.header + bytes(values.contiguous().reshape(-1).view(torch.uint8).tolist())
    spare = next(buffers(LIMIT_BYTES))
    targets = Targets({"w": (layout.pieces[0].dtype, region)}, itertools.repeat(spare))
    borrowed = 0
    for chunk in chunks(layout, LIMIT_BYTES):
        memory = targets.memory_for(chunk)
        memory[:] = file[chunk.begin : chunk.begin + chunk.total_bytes]
        targets.take(memory, chunk)
        borrowed += memory.obj is spare.obj
    return targets.tensors["w"], borrowed


@given(SHAPES, st.data())
def test_any_box_is_put_together_from_chunks(shape: tuple[int, ...], data: st.DataObject) -> None:
    cuts = [sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2))) for size in shape]
    sizes = tuple(high - low for low, high in cuts)
    values = torch.arange(torch.Size(shape).numel()).reshape(shape)
    found, _ = read(values, Region(shape, tuple(low for low, _ in cuts), sizes))
    assert torch.equal(found, values[tuple(slice(low, high) for low, high in cuts)])


@pytest.mark.parametrize(
    ("offsets", "shape", "borrowed"),
    [
        ((0, 0), (16, 8), 0),  # all of it
        ((4, 0), (8, 8), 8),  # chunks of one row each: those of other rows are only hashed
        ((0, 2), (16, 4), 16),  # every row is cut
    ],
)
def test_only_what_cannot_be_read_to_its_place_comes_by_a_buffer(
    offsets: tuple[int, ...], shape: tuple[int, ...], borrowed: int
) -> None:
    values = torch.arange(128).reshape(16, 8)
    assert read(values, Region((16, 8), offsets, shape))[1] == borrowed
