"""Two slots a shard: whatever its writer, a death and readers do, no torn byte is believed."""

import os
import struct
import time
from collections.abc import Iterator

import pytest
from everstep_checkpoint.errors import NoRoomError, OverwrittenError
from everstep_checkpoint.slots import CONTROL_BYTES, SlotPair, Word
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

SHARD_BYTES = 4096
NUMBER = struct.Struct("<q")
AN_HOUR_NS = 3600 * 10**9


@pytest.fixture
def pair() -> Iterator[SlotPair]:
    """Empty, with room for shards of `SHARD_BYTES`."""
    pair = SlotPair.create("test")
    pair.resize(SHARD_BYTES)
    yield pair
    pair.close()


def word_of(step: int, generation: int = 1) -> Word:
    return Word(0, "ready", generation, step, 0, 1, SHARD_BYTES)


def content(step: int, total_bytes: int = SHARD_BYTES) -> bytes:
    return NUMBER.pack(step) * (total_bytes // NUMBER.size)


def write(pair: SlotPair, step: int, generation: int = 1) -> int | None:
    slot = pair.begin()
    if slot is not None:
        os.pwrite(pair.fd, content(step), pair.place(slot))
        pair.finish(slot, word_of(step, generation))
    return slot


def steps(pair: SlotPair) -> list[int]:
    return [word.step for _, word in pair.ready()]


def read(pair: SlotPair, slot: int, word: Word) -> bytes:
    return b"".join(bytes(piece) for piece in pair.read(slot, word, memoryview(bytearray(1000))))


def in_an_hour() -> int:
    return time.monotonic_ns() + AN_HOUR_NS


def test_new_memory_holds_nothing_and_has_no_room() -> None:
    pair = SlotPair.create("test")
    assert (pair.ready(), pair.slot_bytes) == ((), 0)
    pair.close()


def test_a_snapshot_is_read_as_it_was_written(pair: SlotPair) -> None:
    write(pair, 7)
    ((slot, word),) = pair.ready()
    assert read(pair, slot, word) == content(7)


def marked(pair: SlotPair) -> list[int]:
    return [word.step for slot, word in pair.ready() if pair.is_marked(slot, word)]


def test_steps_that_a_peer_asked_for_are_marked_and_held(pair: SlotPair) -> None:
    write(pair, 7)
    assert marked(pair) == []
    pair.ask(10)
    write(pair, 9)
    assert marked(pair) == []
    slot = write(pair, 12)
    assert marked(pair) == [12]
    write(pair, 14)
    assert pair.begin() is None
    assert slot is not None
    pair.hold(slot, until_ns=0, reader="peer")
    assert pair.begin() == slot


def test_of_a_new_generation_the_first_snapshot_is_marked(pair: SlotPair) -> None:
    pair.ask(1000)
    write(pair, 7)
    write(pair, 8)
    assert marked(pair) == [7]
    pair.hold(0, until_ns=0, reader="peer")
    write(pair, 9, generation=2)
    assert marked(pair) == [9]


def test_each_reader_lets_go_of_its_own_hold_alone(pair: SlotPair) -> None:
    slot = write(pair, 7)
    assert slot is not None
    pair.hold(slot, until_ns=in_an_hour(), reader="peer")
    pair.hold(slot, until_ns=in_an_hour())
    write(pair, 8)
    pair.hold(slot, until_ns=0, reader="peer")
    assert pair.begin() is None
    pair.hold(slot, until_ns=0)
    assert pair.begin() == slot


def test_another_process_object_over_the_same_memory_sees_the_same(pair: SlotPair) -> None:
    write(pair, 7)
    other = SlotPair(os.dup(pair.fd))
    assert other.ready() == pair.ready()
    other.close()


def test_the_newest_is_kept_while_the_next_is_written(pair: SlotPair) -> None:
    write(pair, 7)
    write(pair, 8)
    assert pair.begin() is not None
    assert steps(pair) == [8]


def test_a_later_generation_is_newer_whatever_its_step(pair: SlotPair) -> None:
    write(pair, 9, generation=1)
    write(pair, 5, generation=2)
    assert steps(pair) == [5, 9]


def test_a_held_slot_is_not_written_over_and_the_snapshot_is_left_out(pair: SlotPair) -> None:
    held = write(pair, 7)
    assert held is not None
    pair.hold(held, until_ns=in_an_hour())
    write(pair, 8)
    assert write(pair, 9) is None
    assert steps(pair) == [8, 7]


@pytest.mark.parametrize("until_ns", [0, 1])
def test_a_hold_that_was_let_go_or_is_over_keeps_nobody_out(pair: SlotPair, until_ns: int) -> None:
    slot = write(pair, 7)
    assert slot is not None
    pair.hold(slot, until_ns=in_an_hour())
    write(pair, 8)
    pair.hold(slot, until_ns=until_ns)
    assert write(pair, 9) == slot


def test_a_writer_that_died_in_the_middle_leaves_the_other_slot_and_can_be_succeeded(
    pair: SlotPair,
) -> None:
    write(pair, 7)
    begun = pair.begin()
    assert steps(pair) == [7]
    assert write(pair, 8) == begun
    assert steps(pair) == [8, 7]


@pytest.mark.parametrize("at", range(60))
def test_a_control_word_with_any_byte_spoilt_says_nothing(pair: SlotPair, at: int) -> None:
    slot = write(pair, 7)
    assert slot is not None
    place = slot * 512 + at
    spoilt = bytes([os.pread(pair.fd, 1, place)[0] ^ 0xFF])
    os.pwrite(pair.fd, spoilt, place)
    assert pair.ready() == ()
    assert pair.word(slot).state == "empty"


def test_a_reader_notices_that_it_was_overtaken(pair: SlotPair) -> None:
    slot = write(pair, 7)
    assert slot is not None
    pieces = pair.read(slot, pair.word(slot), memoryview(bytearray(SHARD_BYTES // 2)))
    assert bytes(next(pieces)) == content(7, SHARD_BYTES // 2)
    write(pair, 8)
    pair.begin()
    with pytest.raises(OverwrittenError, match="step 7, generation 1"):
        next(pieces)


def test_a_reader_that_was_overtaken_after_its_last_piece_notices_too(pair: SlotPair) -> None:
    slot = write(pair, 7)
    assert slot is not None
    pieces = pair.read(slot, pair.word(slot), memoryview(bytearray(SHARD_BYTES)))
    next(pieces)
    pair.forget(slot)
    with pytest.raises(OverwrittenError):
        next(pieces)


def test_making_room_leaves_what_was_there_where_it_is_even_to_who_reads_it(
    pair: SlotPair,
) -> None:
    write(pair, 6)
    slot = write(pair, 7)
    assert slot is not None
    pieces = pair.read(slot, pair.word(slot), memoryview(bytearray(1000)))
    begin = bytes(next(pieces))
    pair.resize(3 * SHARD_BYTES)
    assert begin + b"".join(map(bytes, pieces)) == content(7)
    assert [read(pair, *found) for found in pair.ready()] == [content(7), content(6)]


def test_room_that_there_is_already_is_not_taken_away(pair: SlotPair) -> None:
    pair.resize(3 * SHARD_BYTES)
    write(pair, 7)
    pair.resize(SHARD_BYTES)
    assert (steps(pair), pair.slot_bytes) == ([7], 3 * SHARD_BYTES)


def test_what_is_held_stays_while_a_larger_snapshot_comes(pair: SlotPair) -> None:
    slot = write(pair, 7)
    assert slot is not None
    pair.hold(slot, until_ns=in_an_hour())
    write(pair, 8)
    pair.resize(3 * SHARD_BYTES)
    assert write(pair, 9) is None
    assert steps(pair) == [8, 7]


def test_slots_take_memory_for_what_is_in_them_only_and_hold_a_shard_of_any_size() -> None:
    pair = SlotPair.create("test")
    pair.resize(SHARD_BYTES + 1)
    assert pair.slot_bytes == 2 * SHARD_BYTES
    write(pair, 7)
    assert os.fstat(pair.fd).st_blocks * 512 == CONTROL_BYTES + SHARD_BYTES
    pair.close()


def test_memory_that_the_machine_does_not_have_is_refused_and_nothing_is_lost_or_taken(
    pair: SlotPair,
) -> None:
    write(pair, 6)
    write(pair, 7)
    with pytest.raises(NoRoomError, match="snapshots need"):
        pair.resize(1 << 50)
    assert (steps(pair), pair.slot_bytes) == ([7, 6], SHARD_BYTES)


class Interleavings(RuleBasedStateMachine):
    """One writer that may die anywhere, and one reader, each a piece at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = SlotPair.create("test")
        self.pair.resize(SHARD_BYTES)
        self.step = 0
        self.writing: int | None = None
        self.written_bytes = 0
        self.held: int | None = None
        self.pieces: Iterator[memoryview] | None = None
        self.reading = word_of(0)
        self.got = b""
        self.newest = -1

    def teardown(self) -> None:
        self.pair.close()

    @precondition(lambda self: self.writing is None)
    @rule()
    def begin(self) -> None:
        newest = self.pair.ready()[0][0] if self.pair.ready() else None
        self.writing = self.pair.begin()
        assert self.writing is None or self.writing not in (newest, self.held)
        self.step, self.written_bytes = self.step + 1, 0

    @precondition(lambda self: self.writing is not None and self.written_bytes < SHARD_BYTES)
    @rule()
    def write_a_half(self) -> None:
        assert self.writing is not None
        half = SHARD_BYTES // 2
        place = self.pair.place(self.writing) + self.written_bytes
        os.pwrite(self.pair.fd, content(self.step, half), place)
        self.written_bytes += half

    @precondition(lambda self: self.writing is not None and self.written_bytes == SHARD_BYTES)
    @rule()
    def finish(self) -> None:
        assert self.writing is not None
        self.pair.finish(self.writing, word_of(self.step))
        self.writing, self.newest = None, self.step

    @rule()
    def make_room(self) -> None:
        self.pair.resize(self.pair.slot_bytes + SHARD_BYTES)

    @rule()
    def die(self) -> None:
        """The writer's next life knows nothing of this one's."""
        self.writing = None

    @precondition(lambda self: self.pieces is None and self.pair.ready())
    @rule(which=st.integers(0, 1), holds=st.booleans())
    def begin_to_read(self, which: int, holds: bool) -> None:
        good = self.pair.ready()
        slot, self.reading = good[min(which, len(good) - 1)]
        if holds:
            self.pair.hold(slot, until_ns=in_an_hour())
            self.held = slot
        self.pieces = self.pair.read(slot, self.reading, memoryview(bytearray(1024)))
        self.got = b""

    @precondition(lambda self: self.pieces is not None)
    @rule()
    def read_a_piece(self) -> None:
        assert self.pieces is not None
        try:
            self.got += bytes(next(self.pieces))
        except StopIteration:
            assert self.got == content(self.reading.step)
            self.stop_reading()
        except OverwrittenError:
            assert self.held is None, "what is held is not written over"
            self.stop_reading()

    def stop_reading(self) -> None:
        self.pieces = None
        if self.held is not None:
            self.pair.hold(self.held, until_ns=0)
            self.held = None

    @invariant()
    def the_newest_is_good(self) -> None:
        if self.newest >= 0:
            slot, word = self.pair.ready()[0]
            assert word.step == self.newest
            assert read(self.pair, slot, word) == content(self.newest)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
