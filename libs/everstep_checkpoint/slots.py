"""Snapshots in memory that outlive the process that made them: two slots a shard, never torn.

The memory is an anonymous file (memfd) that the agent creates and each worker inherits, so it
depends on no path and no size of /dev/shm, survives a worker's SIGKILL, and is gone with its last
holder. One process at a time writes (the worker); any number read. Nobody waits for anybody:

- The writer takes a slot that is neither the newest good one nor held by a reader, or none.
- A reader holds a slot while it copies. The hold only keeps the writer away; that a copy is whole
  is proven afterwards, by a control word that has not moved (a sequence lock).
- Slots lie so far apart that each can grow where it is. Only pages that were touched take memory,
  so what a slot holds outlives that a larger state needs more of it.

Control words are written and read by system calls, which order memory between processes on every
machine, and each carries a checksum, so one that was torn by a death reads as no snapshot.
"""

import os
import struct
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from everstep_checkpoint.errors import OverwrittenError
from everstep_checkpoint.memory import require_room

SLOTS: Final = 2
CONTROL_BYTES: Final = 4096
ALIGNMENT: Final = 4096
STRIDE: Final = 1 << 44
"""From one slot to the next: more than any machine's memory."""
_WORD: Final = struct.Struct("<7qI")
_WORD_STRIDE: Final = 512
_HOLDS_AT: Final = SLOTS * _WORD_STRIDE
_HOLD: Final = struct.Struct("<q")
Reader = Literal["flusher", "peer"]
"""Who keeps the writer away: each has a hold of its own, and lets go of no other's."""
READERS: Final[tuple[Reader, ...]] = ("flusher", "peer")
_ASKED_AT: Final = _HOLDS_AT + len(READERS) * SLOTS * _HOLD.size
_ASKED: Final = struct.Struct("<q")
_MARKS_AT: Final = _ASKED_AT + _ASKED.size
_MARK: Final = struct.Struct("<q")
MARKED_SECONDS: Final = 2.0
"""How long a marked snapshot waits for its reader: an agent on a machine whose load was 15 a core
was 0.33 s late at worst."""
_CHECKSUM_BYTES: Final = 4
_STATES: Final = ("empty", "writing", "ready")
SlotState = Literal["empty", "writing", "ready"]


@dataclass(frozen=True)
class Word:
    """What a slot holds.

    Attributes:
        sequence: Counts the changes of this word; equal twice: nothing was written in between.
        generation: That completed the step.
        step: Completed optimizer steps in the state.
        shard: Which of ``shards`` of its kind it is.
        total_bytes: Of the shard, from the slot's begin.
    """

    sequence: int
    state: SlotState
    generation: int = 0
    step: int = -1
    shard: int = 0
    shards: int = 1
    total_bytes: int = 0

    @property
    def version(self) -> tuple[int, int]:
        """What snapshots of one job are ordered by."""
        return self.generation, self.step


_NOTHING: Final = Word(0, "empty")


class SlotPair:
    """Two slots for one shard; as many objects as one likes may share the memory."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def create(cls, name: str) -> "SlotPair":
        """New memory with room for nothing yet; `resize` gives it its size."""
        fd = os.memfd_create(f"everstep-{name}", os.MFD_CLOEXEC)
        os.ftruncate(fd, CONTROL_BYTES)
        return cls(fd)

    @property
    def slot_bytes(self) -> int:
        """Room in each slot."""
        return max(0, os.fstat(self.fd).st_size - self.place(SLOTS - 1))

    def place(self, slot: int) -> int:
        """Where a slot begins in the file: at a page of any size, and always the same one."""
        return (slot + 1) * STRIDE

    def resize(self, total_bytes: int) -> None:
        """Make room for shards of this size, if there is less; what was there stays, and readable.

        Only the writer may.

        Raises:
            NoRoomError: The machine, or this container, has no such memory; nothing has changed.
        """
        slot_bytes = total_bytes + -total_bytes % ALIGNMENT
        if slot_bytes > self.slot_bytes:
            require_room(SLOTS * (slot_bytes - self.slot_bytes))
            os.ftruncate(self.fd, self.place(SLOTS - 1) + slot_bytes)

    def word(self, slot: int) -> Word:
        """What a slot holds now; a torn word says nothing."""
        raw = os.pread(self.fd, _WORD.size, slot * _WORD_STRIDE)
        *numbers, checksum = _WORD.unpack(raw)
        if zlib.crc32(raw[:-_CHECKSUM_BYTES]) != checksum:
            return _NOTHING
        sequence, state, *rest = numbers
        if not 0 <= state < len(_STATES):
            return _NOTHING
        return Word(sequence, _STATES[state], *rest)

    def ready(self) -> tuple[tuple[int, Word], ...]:
        """The good slots, newest first."""
        words = [(slot, self.word(slot)) for slot in range(SLOTS)]
        good = [(slot, word) for slot, word in words if word.state == "ready"]
        return tuple(sorted(good, key=lambda found: found[1].version, reverse=True))

    def begin(self, needed: tuple[int, int] | None = None) -> int | None:
        """Take a slot to write into; None if both are in use: then this snapshot is left out.

        Args:
            needed: The version that stays, if it is there; else the newest does.
        """
        good = self.ready()
        stays = [slot for slot, word in good if word.version == needed] or [
            slot for slot, _ in good
        ]
        free = [slot for slot in range(SLOTS) if slot not in stays[:1] and not self._is_held(slot)]
        if not free:
            return None
        slot = min(free, key=lambda one: self.word(one).version)
        self._write(slot, Word(self.word(slot).sequence + 1, "writing"))
        return slot

    def finish(self, slot: int, written: Word) -> None:
        """Every byte of it is there; ``written`` says what it is, but for sequence and state."""
        sequence = self.word(slot).sequence + 1
        fields = {**vars(written), "sequence": sequence, "state": "ready"}
        if self._is_asked_for(written):
            os.pwrite(self.fd, _MARK.pack(sequence), _MARKS_AT + slot * _MARK.size)
            until_ns = time.monotonic_ns() + int(MARKED_SECONDS * 1e9)
            self.hold(slot, until_ns=until_ns, reader="peer")
        self._write(slot, Word(**fields))

    def ask(self, every: int) -> None:
        """Have a snapshot marked, and held for a moment, each so many steps; 0: none.

        It is the first after a multiple of ``every``, and the first of a generation, so that
        writers who take snapshots of the same steps mark the same.
        """
        os.pwrite(self.fd, _ASKED.pack(every), _ASKED_AT)

    def is_marked(self, slot: int, word: Word) -> bool:
        """Whether the snapshot that ``word`` tells of was asked for."""
        (sequence,) = _MARK.unpack(os.pread(self.fd, _MARK.size, _MARKS_AT + slot * _MARK.size))
        return bool(sequence == word.sequence)

    def _is_asked_for(self, written: Word) -> bool:
        (every,) = _ASKED.unpack(os.pread(self.fd, _ASKED.size, _ASKED_AT))
        if every <= 0:
            return False
        before = self.ready()
        return not before or (written.generation, written.step // every) != (
            before[0][1].generation,
            before[0][1].step // every,
        )

    def forget(self, slot: int) -> None:
        """What it holds belongs to a future that was given up."""
        self._write(slot, Word(self.word(slot).sequence + 1, "empty"))

    def hold(self, slot: int, *, until_ns: int, reader: Reader = "flusher") -> None:
        """Keep the writer out of a slot until then (CLOCK_MONOTONIC); 0 lets it go.

        A hold ends by itself, so that a reader that died does not keep a slot for ever.
        """
        place = READERS.index(reader) * SLOTS + slot
        os.pwrite(self.fd, _HOLD.pack(until_ns), _HOLDS_AT + place * _HOLD.size)

    def read(self, slot: int, word: Word, buffer: memoryview) -> Iterator[memoryview]:
        """The bytes of a snapshot, piece by piece, each valid until the next is asked for.

        Raises:
            OverwrittenError: They have been written over: nothing of what was read counts.
        """
        at, end = self.place(slot), self.place(slot) + word.total_bytes
        while at < end:
            count = os.preadv(self.fd, [buffer[: min(len(buffer), end - at)]], at)
            if count == 0 or self.word(slot) != word:
                raise OverwrittenError(word.generation, word.step)
            yield buffer[:count]
            at += count
        if self.word(slot) != word:
            raise OverwrittenError(word.generation, word.step)

    def close(self) -> None:
        """Let go; the memory goes with its last holder."""
        os.close(self.fd)

    def _is_held(self, slot: int) -> bool:
        holds = os.pread(self.fd, len(READERS) * SLOTS * _HOLD.size, _HOLDS_AT)
        by_slot = [until_ns for (until_ns,) in _HOLD.iter_unpack(holds)][slot::SLOTS]
        return bool(max(by_slot) > time.monotonic_ns())

    def _write(self, slot: int, word: Word) -> None:
        numbers = (word.sequence, _STATES.index(word.state), word.generation, word.step)
        raw = _WORD.pack(*numbers, word.shard, word.shards, word.total_bytes, 0)[:-_CHECKSUM_BYTES]
        checksum = zlib.crc32(raw).to_bytes(_CHECKSUM_BYTES, "little")
        os.pwrite(self.fd, raw + checksum, slot * _WORD_STRIDE)
