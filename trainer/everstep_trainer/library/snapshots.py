"""Snapshots of this worker's state in memory that its agent keeps: one copy, and training goes on.

The bytes in a slot are those of a shard's file (`everstep_checkpoint.layout`), so whoever makes
them durable copies them as they lie, and whoever restores from them reads what it would from disk.
"""

import logging
import mmap
import time
from collections.abc import Callable, Sequence
from typing import Final

import torch
from everstep_checkpoint.layout import MAX_HEADER_BYTES, PAGE_BYTES, Layout, lay_out, parse_layout
from everstep_checkpoint.slots import SLOTS, SlotPair, Word
from everstep_checkpoint.validity import is_void
from everstep_contract.record import GenerationStart

from everstep_trainer.library.agreement import NOTHING, Version
from everstep_trainer.library.copying import Copier
from everstep_trainer.library.pieces import piece_of, views
from everstep_trainer.library.transfer import Place
from everstep_trainer.library.tree import Packed, Tensors

log = logging.getLogger("everstep")

ROOM_BYTES: Final = 4 * PAGE_BYTES
"""Spare in a header, so that a state whose numbers grow longer still fits the slots there are."""
HEARD_NS: Final = 2 * 10**9
"""An agent on a machine whose load is 15 a core was 0.33 s late at worst."""
_POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE, Linux 5.14: the `mmap` module has no name for it."""


class Memory:
    """The slots of one shard as this process sees them: mapped, touched, with a view a tensor.

    Attributes:
        laying_out_seconds: What finding the memory has taken, in all.
    """

    def __init__(self, pair: SlotPair, copier: Copier) -> None:
        self._pair = pair
        self._copier = copier
        self._layout: Layout | None = None
        self._slots: list[torch.Tensor] = []
        self._views: list[Tensors] = []
        self._laid_out = set[int]()  # slots whose header is this layout's
        self.laying_out_seconds = 0.0

    def write(
        self,
        packed: Packed,
        version: Version,
        shard: int,
        shards: int,
        needed: Version | None = None,
    ) -> bool:
        """Copy a state into a free slot; False, and nothing written, if there is none.

        ``needed`` is the version that stays, if it is there; else the newest does, even where the
        new one needs more room.

        Raises:
            NoRoomError: It needs more memory than there is.
        """
        layout, state = self._prepare(packed)
        slot = self._pair.begin((needed.generation, needed.step) if needed else None)
        if slot is None:
            return False
        memory, targets = self._slots[slot], self._views[slot]
        if slot not in self._laid_out:
            _put(memory, 0, layout.header)
            self._laid_out.add(slot)
        _put(memory, layout.state_at, state)
        self._copier.copy([(targets[name], packed.tensors[name]) for name in targets])
        written = Word(
            0, "ready", version.generation, version.step, shard, shards, layout.total_bytes
        )
        self._pair.finish(slot, written)
        return True

    def versions(self) -> list[Version]:
        """Of the good slots, newest first."""
        return [Version(*word.version) for _, word in self._pair.ready()]

    def read(self, version: Version, shard: int, shards: int) -> Packed | None:
        """A shard that a good slot holds; its tensors are the slot's, so copy before writing.

        Raises:
            DamagedError: What is in the slot is no shard.
        """
        wanted = (version, shard, shards)
        for slot, word in self._pair.ready():
            if (Version(*word.version), word.shard, word.shards) == wanted:
                return self._read(slot, word)
        return None

    def _read(self, slot: int, word: Word) -> Packed:
        if not self._slots:
            self._map()
        memory = self._slots[slot]
        begin = memoryview(memory[: word.total_bytes].numpy().data)
        layout = parse_layout(f"/proc/self/fd/{self._pair.fd}", begin, word.total_bytes)
        return Packed(layout.state, views(memory, layout))

    def hold(self, version: Version) -> None:
        """Take no other snapshot in its place for a moment."""
        for slot, word in self._pair.ready():
            if Version(*word.version) == version:
                self._pair.hold(slot, until_ns=time.monotonic_ns() + HEARD_NS)

    def _prepare(self, packed: Packed) -> tuple[Layout, bytes]:
        """Where everything goes, laid out anew if the tensors are others; and the state's text."""
        layout = self._layout
        if layout is not None and self._fits(packed.tensors, layout):
            state = layout.room_for(packed.text)
            if state is not None:
                return layout, state
        return self._lay_out(packed)

    def _lay_out(self, packed: Packed) -> tuple[Layout, bytes]:
        began = time.perf_counter()
        pieces = [piece_of(name, tensor) for name, tensor in packed.tensors.items()]
        short = lay_out(pieces, packed.text)
        room_bytes = max(ROOM_BYTES, len(short.header))  # twice as much: what grows goes on growing
        header_bytes = min(len(short.header) + room_bytes, MAX_HEADER_BYTES)
        layout = lay_out(pieces, packed.text, header_bytes=header_bytes)
        if layout.total_bytes > self._pair.slot_bytes:
            self._pair.resize(layout.total_bytes)
        if not self._slots or layout.total_bytes > self._slots[0].numel():
            self._map()
        self._layout, self._laid_out = layout, set()
        self._views = [views(memory, layout) for memory in self._slots]
        state = layout.room_for(packed.text)
        assert state is not None, "it was laid out for this state"
        self.laying_out_seconds += time.perf_counter() - began
        return layout, state

    def _fits(self, tensors: Tensors, layout: Layout) -> bool:
        if len(tensors) != len(layout.pieces):
            return False
        known = self._views[0]
        return all(
            (there := known.get(name)) is not None
            and there.shape == tensor.shape
            and there.dtype == tensor.dtype
            for name, tensor in tensors.items()
        )

    def _map(self) -> None:
        """Map both slots and touch every page now, so that no copy has to wait for one."""
        for memory in self._slots:
            self._copier.release(memory)
        self._slots, self._views, self._layout = [], [], None
        slots = [_mapped(self._pair, slot) for slot in range(SLOTS)]
        for memory in slots:
            self._copier.prepare(memory)
        self._slots = slots


def _mapped(pair: SlotPair, slot: int) -> torch.Tensor:
    mapped = mmap.mmap(pair.fd, pair.slot_bytes, offset=pair.place(slot))
    try:
        mapped.madvise(_POPULATE_WRITE)
    except OSError as error:  # an old kernel: the first copy touches them
        log.info("snapshot memory is not touched in advance: %s", error)
    return torch.frombuffer(mapped, dtype=torch.uint8)


def _put(memory: torch.Tensor, at: int, raw: bytes) -> None:
    memory[at : at + len(raw)].copy_(torch.frombuffer(bytearray(raw), dtype=torch.uint8))


class Snapshots:
    """What this worker keeps for itself, and for its member what all ranks share.

    Attributes:
        skipped: Snapshots left out because both slots were in use.
        seconds: How long training stood still for the newest one, where its memory was there.
    """

    def __init__(self, state: SlotPair, rank: SlotPair, copier: Copier) -> None:
        self.skipped = 0
        self.seconds = 0.0
        self._state = Memory(state, copier)
        self._rank = Memory(rank, copier)

    def take(self, version: Version, place: Place, capture: Callable[[], Packed], own: str) -> bool:
        """Keep the state and what is this rank's own; whether both found a place.

        Of a member's workers the first keeps the state, which is the same on all of them.

        Args:
            version: Of the state; the generation is the running one.
            place: This worker's.
            capture: Gives the state, with the live tensors.
            own: What this rank has for itself, as JSON.

        Raises:
            NoRoomError: It needs more memory than there is.
        """
        began = time.perf_counter() - self._laying_out_seconds()
        # what belongs to a state that stays because there is no place for another one stays too
        needed = next(iter(self._state.versions()), None)
        kept = self._rank.write(Packed(own, {}), version, place.rank, place.world_size, needed)
        if kept and place.local_rank == 0:
            kept = self._state.write(capture(), version, 0, 1)
        self.seconds = time.perf_counter() - self._laying_out_seconds() - began
        if not kept:
            self.skipped += 1
            log.info("snapshot of step %d left out: the slots are in use", version.step)
        return kept

    def _laying_out_seconds(self) -> float:
        return self._state.laying_out_seconds + self._rank.laying_out_seconds

    def hold(self, version: Version, place: Place) -> None:
        """Keep what is to be durable until the agent hears so, and holds it itself."""
        self._rank.hold(version)
        if place.rank == 0:  # whose member writes the state of all
            self._state.hold(version)

    def newest(self, history: Sequence[GenerationStart] = ()) -> Version:
        """The newest state in memory that no generation went back behind (R26), or `NOTHING`."""
        good = (one for one in self._state.versions() if not is_void(one, history))
        return next(good, NOTHING)

    def read_state(self, version: Version) -> Packed | None:
        """That state; its tensors are the memory's own."""
        return self._state.read(version, 0, 1)

    def read_own(self, version: Version, place: Place) -> str | None:
        """What this rank had for itself then; None if ranks were others."""
        packed = self._rank.read(version, place.rank, place.world_size)
        return packed.text if packed else None
