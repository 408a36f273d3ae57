"""Copies of other members' snapshots, in memory of this agent: whole and verified, or not there.

They lie in pairs of slots like a worker's own, so half of one, or a broken one, never counts, and
the one before it stays until the next is whole.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Final

import xxhash
from everstep_checkpoint.errors import NoRoomError
from everstep_checkpoint.memory import available_bytes
from everstep_checkpoint.slots import ALIGNMENT, SLOTS, SlotPair, Word
from everstep_checkpoint.validity import is_void
from everstep_contract.base import Generation, Model, Name, Step
from everstep_contract.manifest import ShardKind
from everstep_contract.record import GenerationStart
from pydantic import Field, model_validator

from everstep_trainer.agent.snapshots import Snapshot

MAX_PAIRS: Final = 256
"""Shards kept, each with a descriptor: those of sixteen workers in two generations, and room."""
MAX_COMING: Final = 8
"""Shards that come in at once; a member is the partner of one other, seldom of more."""
MAX_SHARD_BYTES: Final = 1 << 40
MAX_EVERY: Final = 1 << 20
KEPT_GENERATIONS: Final = 2
Key = tuple[str, ShardKind, int]


class Offer(Model):
    """One shard of a member's snapshot; its bytes follow.

    ``every``: steps between two copies that all members should make; 0: it does not matter.
    """

    origin: Name = Field(description="Incarnation whose worker made it.")
    kind: ShardKind
    generation: Generation
    step: Step
    shard: int = Field(ge=0)
    shards: int = Field(ge=1, le=1 << 20)
    total_bytes: int = Field(gt=0, le=MAX_SHARD_BYTES)
    every: int = Field(default=0, ge=0, le=MAX_EVERY)

    @model_validator(mode="after")
    def _check(self) -> "Offer":
        if self.shard >= self.shards:
            raise ValueError(f"shard {self.shard} of {self.shards}")
        return self

    @classmethod
    def of(cls, snapshot: Snapshot, origin: str, every: int = 0) -> "Offer":
        """What a member says of its own snapshot.

        Raises:
            ValueError: Its worker has written down what cannot be.
        """
        return cls(
            origin=origin,
            kind=snapshot.kind,
            generation=snapshot.generation,
            step=snapshot.step,
            shard=snapshot.shard,
            shards=snapshot.shards,
            total_bytes=snapshot.total_bytes,
            every=every,
        )


class Replicas:
    """The two newest copies of each shard that came.

    Args:
        limit_bytes: Of memory for all of them.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pairs: dict[Key, SlotPair] = {}
        self._coming: dict[Key, Incoming] = {}
        self._is_closed = False

    @property
    def held_bytes(self) -> int:
        """Memory that copies take, or will when they have come."""
        coming = [incoming.pair for incoming in self._coming.values()]
        pairs = {pair.fd: pair for pair in (*self._pairs.values(), *coming)}
        return sum(SLOTS * pair.slot_bytes for pair in pairs.values())

    def begin(self, offer: Offer) -> "Incoming | str":
        """A place for a shard to come to; or why there is none."""
        key = (offer.origin, offer.kind, offer.shard)
        if self._is_closed:
            return "it keeps nothing more"
        if key in self._coming:
            return "it is coming already"
        if len(self._coming) >= MAX_COMING:
            return f"{MAX_COMING} shards are coming already"
        if key not in self._pairs and len(self._pairs) >= MAX_PAIRS:
            return f"{MAX_PAIRS} shards are kept already"
        found = self._room(key, offer)
        if isinstance(found, str):
            return found
        slot = found.begin()
        if slot is None:
            return "both slots are in use"
        self._coming[key] = Incoming(offer, found, slot)
        return self._coming[key]

    def _room(self, key: Key, offer: Offer) -> SlotPair | str:
        """The pair that there is, or a larger one, which replaces it once something is in it."""
        pair = self._pairs.get(key)
        if pair and pair.slot_bytes >= offer.total_bytes:
            return pair
        needed_bytes = SLOTS * (offer.total_bytes + -offer.total_bytes % ALIGNMENT)
        if self.held_bytes + needed_bytes > self._limit_bytes:
            return f"{self.held_bytes} of {self._limit_bytes} bytes are kept already"
        if 2 * needed_bytes > available_bytes():
            return f"{needed_bytes} bytes are more than half of the memory that is left"
        pair = SlotPair.create(f"peer-{offer.kind}-{offer.shard}")
        try:
            pair.resize(offer.total_bytes)
        except NoRoomError:  # somebody took it meanwhile
            pair.close()
            return f"there is no room for {needed_bytes} bytes"
        return pair

    def end(self, incoming: "Incoming") -> None:
        """It has come, or never will."""
        offer = incoming.offer
        key = (offer.origin, offer.kind, offer.shard)
        if self._coming.get(key) is not incoming:
            return
        del self._coming[key]
        before = self._pairs.get(key)
        if incoming.pair is before:
            return
        if incoming.is_whole and not self._is_closed:
            self._pairs[key] = incoming.pair
        else:
            before = incoming.pair
        if before:
            before.close()

    def snapshots(self) -> Iterator[Snapshot]:
        """What is whole."""
        for key, pair in self._pairs.items():
            for _, word in pair.ready():
                yield _snapshot(key, word)

    def find(self, snapshot: Snapshot) -> tuple[SlotPair, int, Word] | None:
        """Where it lies; None if a newer one came."""
        key = (snapshot.origin, snapshot.kind, snapshot.shard)
        pair = self._pairs.get(key)
        for slot, word in pair.ready() if pair else ():
            if pair and _snapshot(key, word) == snapshot:
                return pair, slot, word
        return None

    def forget_overtaken(self, starts: Iterable[GenerationStart]) -> None:
        """Let go of futures that were given up (R26), and of all but the newest two generations."""
        found = {snapshot.generation for snapshot in self.snapshots()}
        kept = sorted(found)[-KEPT_GENERATIONS:]
        starts = tuple(starts)
        for key, pair in list(self._pairs.items()):
            for slot, word in pair.ready():
                if word.generation not in kept or is_void(word, starts):
                    pair.forget(slot)
            if not pair.ready() and key not in self._coming:
                self._pairs.pop(key).close()

    def close(self) -> None:
        """Let all go, and take nothing more in (R24)."""
        self._is_closed = True
        for incoming in self._coming.values():
            incoming.is_wanted = False
        coming = {incoming.pair.fd for incoming in self._coming.values()}
        for pair in self._pairs.values():
            if pair.fd not in coming:
                pair.close()
        self._pairs.clear()


class Incoming:
    """A shard on its way to its slot."""

    def __init__(self, offer: Offer, pair: SlotPair, slot: int) -> None:
        self.offer = offer
        self.pair = pair
        self.is_whole = False
        self.is_wanted = True
        self._slot = slot
        self._at = 0
        self._hash = xxhash.xxh3_128()

    @property
    def digest(self) -> bytes:
        """Of all that has come."""
        return self._hash.digest()

    def put(self, piece: memoryview | bytes) -> None:
        """The next bytes."""
        self._hash.update(piece)
        os.pwrite(self.pair.fd, piece, self.pair.place(self._slot) + self._at)
        self._at += len(piece)

    def finish(self) -> None:
        """All of it is there, and as it was sent."""
        assert self._at == self.offer.total_bytes
        offer = self.offer
        word = Word(
            0, "ready", offer.generation, offer.step, offer.shard, offer.shards, offer.total_bytes
        )
        self.pair.finish(self._slot, word)
        self.is_whole = True


def _snapshot(key: Key, word: Word) -> Snapshot:
    """Of its member's workers nothing is known: the shard stands for the place."""
    origin, kind, shard = key
    numbers = (word.generation, word.step, shard, word.shards, word.total_bytes)
    return Snapshot(shard, kind, *numbers, origin=origin)
