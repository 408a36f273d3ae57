"""Copies of other members' snapshots: whole or not there, bounded, and no longer than needed."""

import os

import pytest
from everstep_checkpoint.slots import ALIGNMENT, CONTROL_BYTES, SLOTS
from everstep_contract.record import GenerationStart
from everstep_trainer.agent import replicas
from everstep_trainer.agent.replicas import Incoming, Offer, Replicas
from pydantic import ValidationError

BODY = bytes(range(256)) * 16
ROOM = SLOTS * ALIGNMENT


def offer(step: int = 7, *, generation: int = 1, shard: int = 0, body: bytes = BODY) -> Offer:
    return Offer(
        origin="worker-1.1",
        kind="rank",
        generation=generation,
        step=step,
        shard=shard,
        shards=8,
        total_bytes=len(body),
    )


def begin(kept: Replicas, offered: Offer) -> Incoming:
    incoming = kept.begin(offered)
    assert isinstance(incoming, Incoming)
    return incoming


def keep(kept: Replicas, offered: Offer, body: bytes = BODY) -> None:
    incoming = begin(kept, offered)
    incoming.put(body)
    incoming.finish()
    kept.end(incoming)


def held(kept: Replicas) -> set[tuple[int, int]]:
    return {snapshot.version for snapshot in kept.snapshots()}


def content(kept: Replicas, step: int) -> bytes:
    snapshot = next(one for one in kept.snapshots() if one.step == step)
    found = kept.find(snapshot)
    assert found is not None
    pair, slot, word = found
    return b"".join(bytes(piece) for piece in pair.read(slot, word, memoryview(bytearray(4096))))


def test_the_two_newest_are_kept_as_they_came() -> None:
    kept = Replicas(ROOM)
    for step in (7, 8, 9):
        keep(kept, offer(step), bytes([step]) * len(BODY))
    assert held(kept) == {(1, 8), (1, 9)}
    assert content(kept, 9) == bytes([9]) * len(BODY)


def test_what_is_cut_off_leaves_the_newest_whole_one_as_it_is() -> None:
    kept = Replicas(ROOM)
    keep(kept, offer(7))
    incoming = begin(kept, offer(8))
    incoming.put(BODY[:100])
    kept.end(incoming)
    assert held(kept) == {(1, 7)}
    assert content(kept, 7) == BODY


def test_a_larger_shard_that_is_cut_off_costs_nothing_of_what_is_there() -> None:
    kept = Replicas(4 * ROOM)
    keep(kept, offer(7))
    large = BODY * 2
    incoming = begin(kept, offer(8, body=large))
    kept.end(incoming)
    assert content(kept, 7) == BODY
    keep(kept, offer(9, body=large), large)
    assert content(kept, 9) == large
    assert kept.held_bytes == 2 * ROOM


def test_one_shard_comes_in_once_at_a_time() -> None:
    kept = Replicas(ROOM)
    incoming = begin(kept, offer(7))
    assert kept.begin(offer(8)) == "it is coming already"
    kept.end(incoming)
    begin(kept, offer(8))


def test_memory_beyond_the_limit_is_refused() -> None:
    kept = Replicas(ROOM)
    keep(kept, offer(7))
    refusal = f"{ROOM} of {ROOM} bytes are kept already"
    assert kept.begin(offer(7, shard=1)) == refusal
    assert kept.begin(offer(8, body=BODY * 2)) == refusal
    assert held(kept) == {(1, 7)}


def test_more_than_half_of_the_memory_that_is_left_is_refused() -> None:
    huge = offer().model_copy(update={"total_bytes": 1 << 40})
    assert "more than half of the memory" in str(Replicas(1 << 50).begin(huge))


def test_no_more_shards_are_kept_or_come_than_there_are_bounds_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicas, "MAX_PAIRS", 1)
    kept = Replicas(4 * ROOM)
    keep(kept, offer(7))
    assert kept.begin(offer(7, shard=1)) == "1 shards are kept already"
    monkeypatch.setattr(replicas, "MAX_COMING", 0)
    assert kept.begin(offer(8)) == "0 shards are coming already"


def test_two_hundred_snapshots_take_no_more_memory_than_two() -> None:
    kept = Replicas(1 << 30)
    for step in range(200):
        keep(kept, offer(step))
    (pair, _, _) = kept.find(next(kept.snapshots())) or pytest.fail("nothing is kept")
    assert kept.held_bytes == ROOM
    assert os.fstat(pair.fd).st_blocks * 512 <= CONTROL_BYTES + ROOM


def test_r26_futures_that_were_given_up_are_let_go() -> None:
    kept = Replicas(ROOM)
    keep(kept, offer(7))
    keep(kept, offer(9))
    kept.forget_overtaken([GenerationStart(generation=2, start_step=8)])
    assert held(kept) == {(1, 7)}


def test_only_the_two_newest_generations_are_kept() -> None:
    kept = Replicas(8 * ROOM)
    for generation in (1, 2, 3):
        keep(kept, offer(7, generation=generation, shard=generation))
    kept.forget_overtaken([])
    assert held(kept) == {(2, 7), (3, 7)}
    assert kept.held_bytes == 2 * ROOM


def test_r24_after_the_end_nothing_comes_in() -> None:
    kept = Replicas(4 * ROOM)
    keep(kept, offer(7))
    coming = begin(kept, offer(8))
    kept.close()
    assert not coming.is_wanted
    kept.end(coming)
    assert held(kept) == set()
    assert kept.begin(offer(9)) == "it keeps nothing more"


@pytest.mark.parametrize(
    "wrong",
    [
        {"shard": 8},
        {"shards": 0},
        {"total_bytes": 0},
        {"total_bytes": 1 << 62},
        {"step": 1 << 63},
        {"generation": -1},
        {"kind": "other"},
        {"origin": ""},
    ],
)
def test_an_offer_that_cannot_be_true_is_no_offer(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Offer.model_validate({**offer().model_dump(), **wrong})
