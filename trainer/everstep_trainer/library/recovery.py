"""Where the state comes from when no living worker holds one: memory that outlived it, or disk.

All ranks choose, load and vote together, so they end at one state or none. A source that cannot be
read costs the steps up to the next older one, never the job.
"""

import heapq
import itertools
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from everstep_checkpoint.errors import CheckpointError, DamagedError
from everstep_checkpoint.storage import Storage
from everstep_contract.base import MAX_TEXT
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart

from everstep_trainer.library.agreement import NOTHING, Agreement, Standing, Version, shared
from everstep_trainer.library.candidates import candidates
from everstep_trainer.library.errors import NothingLoadableError
from everstep_trainer.library.loading import load_rank, load_state
from everstep_trainer.library.reading import Watch
from everstep_trainer.library.snapshots import Snapshots
from everstep_trainer.library.streams import log_derived
from everstep_trainer.library.transfer import Place, gather, tell_all
from everstep_trainer.library.tree import Packed

log = logging.getLogger("everstep")

TOLD_AT_ONCE: Final = 8
"""Checkpoints that ranks are told of by one collective; there are more if all of these are bad."""

_NONE: Final = "-"
"""Said where there is no text to send; a broadcast of nothing is none."""

TellDamage = Callable[[str, str], None]
"""Told the checkpoint's name and what is wrong with it."""


@dataclass(frozen=True)
class Lineage:
    """Whose state it is: of which life of which job, and what of it was given up.

    Attributes:
        job: Its name.
        uid: Names this life of the job; checkpoints of another are not its own.
        history: Where its generations began: what is void (R26).
        root: Path or URL below which checkpoints lie; empty where there are none.
        resume_from: An earlier life of the job, whose checkpoints it goes on from while it has none
            of its own; empty for none.
    """

    job: JobKey
    uid: str
    history: tuple[GenerationStart, ...] = ()
    root: str = ""
    resume_from: str = ""

    def version_of(self, manifest: Manifest) -> Version:
        """What a checkpoint's state is to this life: what an earlier one did comes before it."""
        is_own = manifest.lineage == self.uid
        return Version(manifest.generation if is_own else 0, manifest.step)


@dataclass(frozen=True)
class Found:
    """A state that some ranks hold in scratch memory: nothing of the job has changed yet.

    Attributes:
        agreed: Which state, and who holds it.
        packed: It, on a rank that holds it.
        own: What this rank had for itself then, as JSON; what the first had if ranks were others.
        is_import: Whether it was brought in from elsewhere, and may be of some objects only. Then
            one rank holds it, so that all get what it lacks from the same.
        chosen_at, loaded_at: Monotonic seconds.
    """

    agreed: Agreement
    packed: Packed | None
    own: str | None
    chosen_at: float
    loaded_at: float
    is_import: bool = False


@dataclass(frozen=True)
class _Offer:
    """A source that is to be tried; in memory if there is no manifest."""

    version: Version
    manifest: Manifest | None = None


class Recovery:
    """One rank's part in finding a state; every rank of the group calls the same.

    Args:
        place: This worker's.
        lineage: Of the job.
        snapshots: What its member has in memory.
        watch: Looks, while a file is read, whether the generation has ended.
        tell_damage: Who is to know of a checkpoint that is none.
    """

    def __init__(
        self,
        place: Place,
        lineage: Lineage,
        snapshots: Snapshots,
        watch: Watch,
        tell_damage: TellDamage,
    ) -> None:
        self._place = place
        self._lineage = lineage
        self._snapshots = snapshots
        self._watch = watch
        self._tell_damage = tell_damage
        self._reader = 0

    def find(self, standings: Sequence[Standing]) -> Found | None:
        """The newest state that can be loaded; None if there never was one.

        Raises:
            GenerationEnded: An order came meanwhile; nothing has changed.
            NothingLoadableError: There are checkpoints, and none of them is whole.
        """
        names = []
        for offer in self._offers(standings):
            chosen_at = time.monotonic()
            found = self._try(offer, chosen_at)
            if found is not None:
                return found
            if offer.manifest is not None:
                names.append(offer.manifest.checkpoint)
        if names:
            raise NothingLoadableError(names)
        return None

    def _offers(self, standings: Sequence[Standing]) -> Iterator[_Offer]:
        """What there is, newest first; every rank takes the same out of it, one by one."""
        manifests = self._shared_candidates()
        on_disk = (_Offer(self._lineage.version_of(one), one) for one in manifests)
        newest = max(standing.snapshot for standing in standings)
        in_memory = [_Offer(newest)] if newest != NOTHING else []
        return heapq.merge(
            in_memory, on_disk, key=lambda one: (one.version, one.manifest is None), reverse=True
        )

    def _shared_candidates(self) -> Iterator[Manifest]:
        """Told by whoever sees the newest, as they are asked for, newest first.

        A mount may be missing on some node.

        Raises:
            NothingLoadableError: Nobody sees a checkpoint, and somebody cannot look.
        """
        seen, trouble = self._candidates()
        newest_seen = self._lineage.version_of(seen[0]) if seen else NOTHING
        best = [newest_seen.generation, newest_seen.step]
        known = gather(self._place, [*best, int(bool(trouble))])
        newest = max(known)
        self._reader = known.index(newest)
        if Version(*newest[:2]) == NOTHING:
            if any(is_blind for *_, is_blind in known):
                raise NothingLoadableError([trouble or "in a folder that another rank cannot read"])
            return
        for begin in itertools.count(0, TOLD_AT_ONCE):
            part = seen[begin : begin + TOLD_AT_ONCE]
            text = json.dumps([one.model_dump(mode="json") for one in part]).encode()
            told = json.loads(tell_all(self._place, self._reader, text))
            yield from map(Manifest.model_validate, told)
            if len(told) < TOLD_AT_ONCE:
                return

    def _candidates(self) -> tuple[Sequence[Manifest], str]:
        """What this worker's member sees on disk, and why if it cannot look."""
        lineage = self._lineage
        if not lineage.root or self._place.local_rank != 0:
            return [], ""
        try:
            where = (Storage(lineage.root), lineage.job)
            found = candidates(*where, lineage.uid, lineage.history, self._watch)
            if not found and lineage.resume_from:
                found = candidates(*where, lineage.resume_from, (), self._watch)
        except CheckpointError as error:
            log.error("checkpoints cannot be looked for: %s", error)
            return [], str(error)
        return found, ""

    def _try(self, offer: _Offer, chosen_at: float) -> Found | None:
        packed, holds, trouble = self._load(offer)
        if not any(holds):
            self._note_damage(offer, trouble)
            return None
        own, is_good = self._load_own(offer)
        if not is_good:
            return None
        is_import = offer.manifest is not None and offer.manifest.is_import
        if is_import:
            holds = [rank == holds.index(True) for rank in range(len(holds))]
            packed = packed if holds[self._place.rank] else None
        name = offer.manifest.checkpoint if offer.manifest else ""
        agreed = shared(offer.version, holds, "disk" if offer.manifest else "memory", name)
        if self._place.rank == 0:
            log.info("going on from step %d, %s", offer.version.step, name or "in memory")
        if offer.manifest is not None and offer.manifest.world_size != self._place.world_size:
            log_derived(offer.manifest, self._place.world_size)
        return Found(agreed, packed, own, chosen_at, time.monotonic(), is_import)

    def _load(self, offer: _Offer) -> tuple[Packed | None, list[bool], str]:
        """This rank's copy, if it has one; who has one; and why this rank has none.

        One rank reads; the others only if it cannot: its node may be what is wrong.
        """
        trouble = ""
        for readers in ("one", "others"):
            packed, why = self._read(offer) if self._reads(offer, readers) else (None, "")
            trouble = trouble or why
            holds = [bool(has) for [has] in gather(self._place, [int(packed is not None)])]
            if any(holds):
                break
        return packed, holds, trouble

    def _reads(self, offer: _Offer, readers: str) -> bool:
        if offer.manifest is None:
            return readers == "one"
        is_mine = self._place.rank == self._reader
        return is_mine if readers == "one" else not is_mine and self._place.local_rank == 0

    def _read(self, offer: _Offer) -> tuple[Packed | None, str]:
        try:
            if offer.manifest is None:
                return self._snapshots.read_state(offer.version), ""
            loaded = load_state(self._storage(offer.manifest), offer.manifest, None, self._watch)
        except (CheckpointError, OSError) as error:
            return None, str(error)
        return Packed(loaded.text, loaded.tensors), ""

    def _load_own(self, offer: _Offer) -> tuple[str | None, bool]:
        """What this rank had for itself, or the first if ranks were others; whether all have it.

        Who cannot read gets it from one that can: as above, its node may be what is wrong.
        """
        manifest, place = offer.manifest, self._place
        if manifest is None:
            return self._snapshots.read_own(offer.version, place), True
        is_same_world = manifest.world_size == place.world_size
        own, trouble = self._read_own(manifest, place.rank if is_same_world else 0)
        flags = [bool(failed) for [failed] in gather(place, [int(bool(trouble))])]
        helper = flags.index(False) if False in flags else 0
        for rank in [rank for rank, failed in enumerate(flags) if failed]:
            told = ""
            if place.rank == helper:
                told, why = self._read_own(manifest, rank if is_same_world else 0)
                trouble = trouble or why
            told = tell_all(place, helper, (told or _NONE).encode()).decode()
            if told == _NONE:
                self._note_damage(offer, trouble)
                return None, False
            own = told if place.rank == rank else own
        if not own:
            log.warning("%s has no random states of this rank: derived", manifest.checkpoint)
        return own or None, True

    def _read_own(self, manifest: Manifest, rank: int) -> tuple[str, str]:
        """A rank's own shard, empty if it has none; and why it cannot be read, empty if it can."""
        try:
            return load_rank(self._storage(manifest), manifest, rank, self._watch) or "", ""
        except (CheckpointError, OSError) as error:
            return "", str(error)

    def _storage(self, manifest: Manifest) -> Storage:
        if not self._lineage.root:
            raise DamagedError(manifest.checkpoint, "this worker has no checkpoint folder")
        return Storage(self._lineage.root)

    def _note_damage(self, offer: _Offer, detail: str) -> None:
        if offer.manifest is not None and detail:
            log.error("checkpoint %s cannot be loaded: %s", offer.manifest.checkpoint, detail)
            self._tell_damage(offer.manifest.checkpoint, detail[:MAX_TEXT])
