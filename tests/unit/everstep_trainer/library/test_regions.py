"""Boxes within tensors: whether they make a whole, and how a file holds them."""

from collections.abc import Sequence
from math import prod
from pathlib import Path

import pytest
import torch
from everstep_checkpoint.layout import Layout, Piece, lay_out, parse_layout
from everstep_trainer.library.errors import CheckpointDiffersError
from everstep_trainer.library.pieces import TORCH_TYPES
from everstep_trainer.library.regions import Region, chunks, region_of, require_whole, scatter
from hypothesis import given
from hypothesis import strategies as st

LIMIT_BYTES = 64


def shard(*pieces: Piece) -> Layout:
    layout = lay_out(pieces, "{}")
    return parse_layout(Path("w"), layout.header, layout.total_bytes)


def rows(*places: tuple[int, int]) -> list[Layout]:
    """Shards with rows ``begin`` to ``end`` of w, of three columns."""
    return [shard(Piece("w", "F32", (end - begin, 3), (begin, 0))) for begin, end in places]


def whole(*shape: int) -> dict[str, Region]:
    return {"w": Region(shape, (0,) * len(shape), shape)}


def test_a_plain_tensor_is_all_of_it() -> None:
    assert region_of(torch.zeros(2, 3)) == Region((2, 3), (0, 0), (2, 3))


@pytest.mark.parametrize(
    ("layouts", "wanted", "why"),
    [
        (rows((0, 2), (3, 4)), None, "has 9 of its 12 elements"),
        (rows((0, 2)), whole(4, 3), "has shape (2, 3), not (4, 3)"),
        (rows((0, 4)), whole(2, 3), "has shape (4, 3), not (2, 3)"),
        (rows((0, 4)), whole(4, 3, 1), "has shape (4, 3), not (4, 3, 1)"),
        (rows((0, 2), (2, 4), (3, 4)), None, "has elements that are there twice"),
        (rows((0, 2), (0, 2), (3, 4)), None, "has elements that are there twice"),
        (rows((0, 4)), {}, "is not wanted"),
        ([shard()], whole(4, 3), "is missing"),
        (
            [*rows((0, 2)), shard(Piece("w", "F64", (2, 3), (2, 0)))],
            None,
            "has pieces of different types",
        ),
        (
            [*rows((0, 2)), shard(Piece("w", "F32", (6,), (6,)))],
            None,
            "has pieces of different dimensions",
        ),
        ([shard(Piece("w", "F32", ())), shard(Piece("w", "F32", ()))], None, "there twice"),
        ([shard(Piece("w", "F32", (2,), (0, 0)))], None, "has a piece (2,) at (0, 0)"),
        ([shard(Piece("w", "F32", (-2, -2), (0, 0)))], None, "has a piece (-2, -2)"),
    ],
)
def test_ec29_what_does_not_hold_each_element_once_is_refused_by_name(
    layouts: Sequence[Layout], wanted: dict[str, Region] | None, why: str
) -> None:
    with pytest.raises(CheckpointDiffersError) as caught:
        require_whole(layouts, wanted)
    assert caught.value.tensor == "w"
    assert why in str(caught.value)


def test_boxes_that_overlap_and_leave_out_as_much_are_refused() -> None:
    corners = [(0, 0), (0, 1), (2, 0), (2, 2)]  # of boxes of 2 x 2 in a whole of 4 x 4
    layouts = [shard(Piece("w", "F32", (2, 2), corner)) for corner in corners]
    with pytest.raises(CheckpointDiffersError, match="there twice"):
        require_whole(layouts, whole(4, 4))


shapes = st.lists(st.integers(0, 7), max_size=4).map(tuple)


@given(st.lists(st.tuples(st.sampled_from(["F64", "F32", "BF16", "BOOL"]), shapes), max_size=5))
def test_chunks_hold_all_bytes_of_a_shard_in_order(
    found: list[tuple[str, tuple[int, ...]]],
) -> None:
    layout = shard(*(Piece(str(at), *one) for at, one in enumerate(found)))
    plan = list(chunks(layout, LIMIT_BYTES))
    at = len(layout.header)
    for chunk in plan:
        assert (chunk.begin, sum(part.total_bytes for part in chunk.parts)) == (at, chunk.size)
        assert 0 < chunk.size <= LIMIT_BYTES
        at += chunk.size
    assert at == layout.total_bytes


@given(shapes, st.data())
def test_any_box_is_put_together_from_chunks(shape: tuple[int, ...], data: st.DataObject) -> None:
    cuts = [sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2))) for size in shape]
    offsets = tuple(low for low, _ in cuts)
    region = Region(shape, offsets, tuple(high - low for low, high in cuts))
    values = torch.arange(prod(shape)).reshape(shape)
    target = torch.full(region.shape, -1)
    layout = shard(Piece("w", "I64", shape))
    memory = values.reshape(-1).view(torch.uint8)
    for chunk in chunks(layout, LIMIT_BYTES):
        begin = chunk.begin - len(layout.header)
        for part in chunk.parts:
            raw = memory[begin + part.at : begin + part.at + part.total_bytes]
            scatter(raw.view(TORCH_TYPES["I64"]).view(part.shape), part, region, target)
    assert torch.equal(target, values[tuple(slice(low, high) for low, high in cuts)])
