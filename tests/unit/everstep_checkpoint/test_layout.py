"""The bytes of a shard."""

import json
import time
from pathlib import Path

import pytest
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.layout import MAX_HEADER_BYTES, PAGE_BYTES, Piece, lay_out
from support.places import layout_in

PIECES = (
    Piece("model.bias", "BF16", (3,)),
    Piece("model.weight", "F32", (2, 3), offsets=(4, 0)),
    Piece("optimizer.step", "I64", ()),
)
STATE = json.dumps({"step": 7})


def written(folder: Path) -> Path:
    layout = lay_out(PIECES, STATE)
    path = folder / "shard.safetensors"
    body = bytes(range(layout.total_bytes - len(layout.header)))
    path.write_bytes(layout.header + body)
    return path


def test_the_same_pieces_give_the_same_bytes_in_any_order() -> None:
    assert lay_out(PIECES, STATE) == lay_out(PIECES[::-1], STATE)


def test_every_tensor_is_aligned_and_the_header_ends_with_a_page() -> None:
    layout = lay_out(PIECES, STATE)
    assert len(layout.header) % PAGE_BYTES == 0
    assert layout.pieces[0].name == "optimizer.step"
    assert layout.places["optimizer.step"] % 8 == 0
    assert layout.places["model.weight"] % 4 == 0
    assert layout.total_bytes == len(layout.header) + 8 + 24 + 6


def test_a_shard_tells_its_own_layout(tmp_path: Path) -> None:
    assert layout_in(written(tmp_path)) == lay_out(_with_offsets(), STATE)


def _with_offsets() -> list[Piece]:
    return [
        Piece(piece.name, piece.dtype, piece.shape, piece.offsets or (0,) * len(piece.shape))
        for piece in PIECES
    ]


def test_two_tensors_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tensors are called"):
        lay_out([PIECES[0], PIECES[0]], STATE)


def test_a_type_that_the_format_lacks_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="'phase' has type 'C64'"):
        lay_out([Piece("phase", "C64", (1,))], STATE)


@pytest.mark.parametrize("bytes_left", [0, 7, 100, PAGE_BYTES + 3])
def test_a_truncated_shard_is_noticed_by_its_header(tmp_path: Path, bytes_left: int) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:bytes_left])
    with pytest.raises(DamagedError, match="shard"):
        layout_in(path)


def test_any_flipped_bit_of_a_header_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    for at in range(0, len(whole[:PAGE_BYTES].rstrip(b" ")), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        path.write_bytes(damaged)
        try:
            assert layout_in(path) != lay_out(_with_offsets(), STATE)
        except DamagedError:
            continue


def test_a_header_that_nobody_could_read_is_refused_when_it_is_written() -> None:
    with pytest.raises(ValueError, match="what is no tensor takes 100000002 bytes"):
        lay_out([], "x" * MAX_HEADER_BYTES)


def test_no_tensor_takes_the_name_of_the_metadata() -> None:
    with pytest.raises(ValueError, match="no tensor can be called '__metadata__'"):
        lay_out([Piece("__metadata__", "F32", ())], "{}")


def test_a_state_of_very_many_tensors_is_laid_out_at_once() -> None:
    pieces = [Piece(f"experts.{number}.weight", "F32", (1,)) for number in range(30_000)]
    began = time.process_time()
    lay_out(pieces, "{}")
    assert time.process_time() - began < 10
