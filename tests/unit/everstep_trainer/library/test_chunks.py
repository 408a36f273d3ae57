"""A shard cut into reads."""

from everstep_checkpoint.layout import Layout, Piece, lay_out, parse_layout
from everstep_trainer.library.chunks import ALONE_BYTES, chunks
from hypothesis import given
from hypothesis import strategies as st

LIMIT_BYTES = 64
TYPES = st.sampled_from(["F64", "F32", "BF16", "BOOL"])
SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)


def shard(*pieces: Piece) -> Layout:
    layout = lay_out(pieces, "{}")
    return parse_layout("shard", layout.header, layout.total_bytes)


@given(st.lists(st.tuples(TYPES, SHAPES), max_size=5))
def test_chunks_hold_all_bytes_of_a_shard_in_order(
    found: list[tuple[str, tuple[int, ...]]],
) -> None:
    layout = shard(*(Piece(str(at), *one) for at, one in enumerate(found)))
    at = len(layout.header)
    for chunk in chunks(layout, LIMIT_BYTES):
        assert 0 < chunk.total_bytes <= LIMIT_BYTES
        for part in chunk.parts:
            assert part.at == at
            at += part.total_bytes
    assert at == layout.total_bytes


def test_what_is_large_is_read_by_itself() -> None:
    small, large = (3,), (ALONE_BYTES,)
    layout = shard(Piece("a", "BOOL", small), Piece("b", "BOOL", large), Piece("c", "BOOL", small))
    plan = [[part.name for part in chunk.parts] for chunk in chunks(layout, 8 * ALONE_BYTES)]
    assert plan == [["a"], ["b"], ["c"]]
