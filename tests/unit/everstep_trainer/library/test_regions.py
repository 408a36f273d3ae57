"""Boxes within tensors: which one a rank needs, and whether those in files make a whole."""

from collections.abc import Sequence

import pytest
import torch
from everstep_checkpoint.layout import Layout, Piece, lay_out, parse_layout
from everstep_trainer.library.errors import CheckpointDiffersError
from everstep_trainer.library.regions import Region, region_of, require_whole


def shard(*pieces: Piece) -> Layout:
    layout = lay_out(pieces, "{}")
    return parse_layout("w", layout.header, layout.total_bytes)


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


@pytest.mark.parametrize(("offsets", "shape"), [((3, 0), (2, 3)), ((-1, 0), (2, 3)), ((0,), (4,))])
def test_a_region_outside_of_its_whole_is_refused(
    offsets: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"within|argument"):
        Region((4, 3), offsets, shape)


def test_boxes_that_overlap_and_leave_out_as_much_are_refused() -> None:
    corners = [(0, 0), (0, 1), (2, 0), (2, 2)]  # of boxes of 2 x 2 in a whole of 4 x 4
    layouts = [shard(Piece("w", "F32", (2, 2), corner)) for corner in corners]
    with pytest.raises(CheckpointDiffersError, match="there twice"):
        require_whole(layouts, whole(4, 4))
