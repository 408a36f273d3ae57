"""This worker's copy of the job's state, over all generations that its process lives through."""

import itertools
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch.utils.hooks import RemovableHandle

from everstep_trainer.library.agreement import (
    NOTHING,
    Agreement,
    Standing,
    Version,
    agree,
    begin,
    shared_streams,
    steps_lost,
)
from everstep_trainer.library.cadence import Pacer
from everstep_trainer.library.own_shard import OwnShard, configuration
from everstep_trainer.library.recovery import Found, Lineage, Recovery
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.rng import (
    LIBRARIES,
    capture_rng,
    digests,
    restore_rng,
)
from everstep_trainer.library.snapshots import Snapshots
from everstep_trainer.library.streams import derived_rng
from everstep_trainer.library.transfer import Place, Route, gather, transfer
from everstep_trainer.library.tree import Packed, pack, unpack
from everstep_trainer.library.turn import TurnStart
from everstep_trainer.library.versions import NOT_WHOLE, StepCount
from everstep_trainer.page import Page

log = logging.getLogger("everstep")


@dataclass(frozen=True)
class Meeting:
    """What the ranks of a generation came to.

    Attributes:
        agreed: The state that all go on from.
        steps_lost: Completed steps that this costs this worker.
        found: How it was loaded, if no living worker held it.
    """

    agreed: Agreement
    steps_lost: int
    found: Found | None


@dataclass(frozen=True)
class Saving:
    """How a worker's state is kept.

    Attributes:
        snapshots: The memory that outlives its process.
        pacer: When a snapshot and when a checkpoint is due.
        root: Path or URL below which checkpoints lie; empty where there are none.
        resume_from: An earlier life of the job to go on from; empty for none.
    """

    snapshots: Snapshots
    pacer: Pacer
    root: str = ""
    resume_from: str = ""


class JobState:
    """What this worker holds: the tracked objects, and which step they are at.

    Args:
        page: Where the agent reads the version.
        saving: How it is kept.
    """

    def __init__(self, page: Page, saving: Saving) -> None:
        self.saving = saving
        self._page = page
        self._replica = Replica({})
        self._count = StepCount()
        self._branch = NOT_WHOLE  # the generation that completed the newest step
        self._newest_step = NOT_WHOLE
        self._hooks: list[RemovableHandle] = []
        self._turn: TurnStart | None = None
        self._last_others: dict[str, Packed] | None = None
        self._habit: frozenset[str] = frozenset()
        self._is_agreed = False
        self._rng: dict[str, Any] | None = None
        self._shared_streams: tuple[str, ...] = ()  # whose random numbers are equal on all ranks
        self._stepped_seconds, self._stepped = 0.0, 0  # in this generation
        self._saved_step = NOT_WHOLE  # the newest that was, or need not be, made durable

    @property
    def version(self) -> int:
        """Completed steps in the state, -1 if it is not whole."""
        return self._count.version

    @property
    def step(self) -> int:
        """Completed steps when the running turn began; the index of the step that it is to do."""
        return self._count.base

    def parameters(self) -> set[int]:
        """Identities of all tracked parameters."""
        modules = self._replica.modules.values()
        return {id(parameter) for module in modules for parameter in module.parameters()}

    def adopt(self, objects: Mapping[str, object]) -> None:
        """Track these objects from now on; they take over the state of those before.

        Raises:
            StateError: They cannot, or snapshots are wanted and cannot hold them.
        """
        replica = Replica(objects)
        if self.saving.pacer.keeps_any(len(replica.optimizers)):
            replica.require_storable()
        if self.version != NOT_WHOLE and not replica.holds_the_objects_of(self._replica):
            replica.restore(self._replica.capture())
        if replica.others.keys() != self._replica.others.keys():
            self._habit = frozenset(replica.others)
        self._replica = replica
        replica.drop_gradients()

    def agree(self, place: Place, lineage: Lineage, recovery: Recovery) -> Meeting:
        """Come to the same state on all ranks of the default group.

        One small collective when all hold the same already.

        Raises:
            GenerationEnded: An order came in between; this worker's state is what it was.
            StateError: The ranks track different things, or steps were done and no state is left.
        """
        mine = self._standing(lineage)
        standings = [Standing.from_numbers(row) for row in gather(place, mine.to_numbers())]
        agreed, found = agree(standings), None
        if agreed is None:
            found = recovery.find(standings)
            agreed = found.agreed if found else begin(standings)
        shared = shared_streams(standings, agreed)
        if shared is not None:
            self._shared_streams = tuple(itertools.compress(LIBRARIES, shared))
        self._take_over(place, lineage, agreed, found)
        self._branch, self._newest_step = agreed.version.generation, agreed.version.step
        self._saved_step = agreed.version.step if agreed.source == "disk" else NOT_WHOLE
        self.saving.pacer.begin(agreed.version.step, place.members)
        self._stepped_seconds, self._stepped = 0.0, 0
        self._last_others = None
        self._count.start(agreed.version.step, frozenset(self._replica.optimizers))
        self._is_agreed = True
        self._page.write("version", self.version)
        return Meeting(agreed, steps_lost(mine, agreed), found)

    def watch(self, guard: Callable[[], None]) -> None:
        """Count the optimizers' steps from now on; before each, ``guard`` may raise."""
        for name, optimizer in self._replica.optimizers.items():

            def before(*_: Any, name: str = name) -> None:
                guard()
                self._count.stepping(name)

            def after(*_: Any, name: str = name) -> None:
                self._count.stepped(name)
                self._page.write("version", self.version)

            self._hooks.append(optimizer.register_step_pre_hook(before))
            self._hooks.append(optimizer.register_step_post_hook(after))

    def begin_turn(self, generation: int, place: Place) -> bool:
        """Keep what the step will change besides the tensors that optimizers step.

        Returns:
            Whether a snapshot was taken now that is to be made durable.

        Raises:
            NoRoomError: Snapshots are due, and there is too little memory for them.
        """
        if self.saving.pacer.plans_at(self.step):
            planned = self.saving.pacer.follow(gather(place, self._measured_ns()))
            if planned and place.rank == 0:
                log.info("%s", planned)
        self._turn = TurnStart.of(self._replica)
        if self._last_others is not None:
            self._habit = self._turn.moved_since(self._last_others)
        due = self.saving.pacer.due(self.step, len(self._replica.optimizers))
        if due is None:
            return False
        return self._snapshot(generation, place, self._turn.rng, durable=due == "checkpoint")

    @property
    def lacks_a_checkpoint(self) -> bool:
        """Whether checkpoints are wanted, and the newest state is in none."""
        return self.saving.pacer.saves_checkpoints and self.step != self._saved_step

    @property
    def has_left(self) -> bool:
        """Whether the newest state is in no checkpoint, and is whole."""
        return self.lacks_a_checkpoint and self.version != NOT_WHOLE

    def take_last(self, generation: int, place: Place) -> bool:
        """Training is over: keep its end; False if there is no room for it just now."""
        return self._snapshot(generation, place, capture_rng(), durable=True)

    def take_left(self, generation: int, place: Place) -> bool:
        """The generation is left, and none follows for now: keep what it has come to.

        Returns:
            Whether a snapshot was taken that is to be made durable; else both slots are in use.

        Raises:
            NoRoomError: It needs more memory than there is.
        """
        return self._snapshot(generation, place, self._rng or capture_rng(), durable=True)

    def _snapshot(
        self, generation: int, place: Place, rng: dict[str, Any], *, durable: bool
    ) -> bool:
        if self.step == self._saved_step:
            return False
        version = Version(generation, self.step)
        own = OwnShard(
            place.rank, place.world_size, self.step, configuration(), self._shared_streams, rng
        )
        kept = self.saving.snapshots.take(version, place, self._packed, own.to_json())
        if kept and durable:
            self.saving.snapshots.hold(version, place)
            self._saved_step = self.step
        return kept and durable

    def _measured_ns(self) -> list[int]:
        """What a step, a snapshot and the flush of one take here."""
        step_seconds = self._stepped_seconds / max(1, self._stepped)
        snapshot_seconds = self.saving.snapshots.seconds
        return [int(step_seconds * 1e9), int(snapshot_seconds * 1e9), self._page.flush_ns()]

    def _packed(self) -> Packed:
        return pack(self._replica.capture(), "state")

    def complete_turn(self, generation: int, seconds: float) -> None:
        """The script says that the step is completed, and how long it took."""
        self._stepped_seconds, self._stepped = self._stepped_seconds + seconds, self._stepped + 1
        self._last_others, self._turn = self._turn.others if self._turn else None, None
        self._count.complete()
        self._branch, self._newest_step = generation, self.step
        self._page.write("version", self.version)

    def leave(self, generation: int) -> None:
        """The generation is over: settle what an interrupted turn has left behind."""
        while self._hooks:
            self._hooks.pop().remove()
        if self._turn is not None:
            self._settle(self._turn, generation)
        if self._is_agreed:
            self._rng = capture_rng()
        self._turn, self._is_agreed = None, False

    def _settle(self, turn: TurnStart, generation: int) -> None:
        if not self._count.touched:
            turn.restore(self._replica)
        elif self.version != NOT_WHOLE:
            turn.follow(self._replica, self._habit)
            self._branch, self._newest_step = generation, self.version
        self._count.settle()
        self._page.write("version", self.version)

    def _standing(self, lineage: Lineage) -> Standing:
        whole = self.version != NOT_WHOLE
        snapshot = self.saving.snapshots.newest(lineage.history)
        return Standing(
            version=Version(self._branch, self.version) if whole else NOTHING,
            snapshot=snapshot,
            newest_step=max(self._newest_step, snapshot.step),
            structure=self._replica.structure(),
            streams=digests(self._rng or capture_rng()),
        )

    def _take_over(
        self, place: Place, lineage: Lineage, agreed: Agreement, found: Found | None
    ) -> None:
        """Make the agreed state, and random states that go with it, this worker's own (EC-55)."""
        if found is not None and found.packed is not None:
            lacks = self._replica.restore(unpack(found.packed), others_stay=found.is_import)
            if lacks:
                what = ", ".join(sorted(lacks))
                log.warning(
                    "the import %s has no %s: as the script made it", agreed.checkpoint, what
                )
        rng = self._own_rng(place, agreed, found)
        if agreed.receivers:
            route = Route(place, agreed.sources, agreed.receivers)
            received = transfer(route, self._sent(rng) if route.sends else None)
            if received is not None:
                state = unpack(received)
                self._replica.restore(state["state"])
                rng = rng or state["rng"]
        if agreed.source != "fresh":  # scripts seed each rank as they like
            material = f"{lineage.uid}/{agreed.version.generation}"
            restore_rng(derived_rng(material, agreed.version.step, place.rank) | rng)

    def _sent(self, rng: dict[str, Any]) -> Packed:
        """What a receiver gets: of random states, those that are the same on all ranks."""
        shared = {name: rng[name] for name in self._shared_streams if name in rng}
        return pack({"state": self._replica.capture(), "rng": shared}, "state")

    def _own_rng(self, place: Place, agreed: Agreement, found: Found | None) -> dict[str, Any]:
        """The random states that this rank had in the agreed state, as far as it knows them."""
        if found is not None and found.own is not None:
            own = OwnShard.from_json(found.own)
            self._shared_streams = own.shared_streams
            if place.rank == 0 and own.configuration != configuration():
                log.warning("the script's arguments are not those that the state was saved with")
            return own.rng_for(place)
        is_source = agreed.source == "living" and place.rank in agreed.sources
        # scripts draw numbers while they build, between generations
        return (self._rng or {}) if is_source else {}
