"""This worker's copy of the job's state, over all generations that its process lives through."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.distributed as dist
from torch.utils.hooks import RemovableHandle

from everstep_trainer.library.agreement import (
    NOTHING,
    Agreement,
    Standing,
    Version,
    agree,
    steps_lost,
)
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.rng import capture_rng, restore_rng
from everstep_trainer.library.transfer import Place, Route, transfer
from everstep_trainer.library.tree import Packed, pack, unpack
from everstep_trainer.library.turn import TurnStart
from everstep_trainer.library.versions import NOT_WHOLE, StepCount
from everstep_trainer.page import Page

SNAPSHOT_EVERY: Final = 20
"""Steps between snapshots where a step is more than one optimizer's, so that it can be torn."""


@dataclass(frozen=True)
class Snapshot:
    """A whole state in memory."""

    version: Version
    packed: Packed


class JobState:
    """What this worker holds: the tracked objects, and which step they are at.

    Args:
        page: Where the agent reads the version.
        snapshot_every: Steps between snapshots in memory; 0 for none, None for the usual: none if
            one optimizer steps the whole state, since then a step cannot be torn.
    """

    def __init__(self, page: Page, snapshot_every: int | None = None) -> None:
        self._page = page
        self._snapshot_every = snapshot_every
        self._replica = Replica({})
        self._count = StepCount()
        self._branch = NOT_WHOLE  # the generation that completed the newest step
        self._newest_step = NOT_WHOLE
        self._snapshot: Snapshot | None = None
        self._hooks: list[RemovableHandle] = []
        self._turn: TurnStart | None = None
        self._last_others: dict[str, Packed] | None = None
        self._habit: frozenset[str] = frozenset()
        self._is_agreed = False
        self._rng: dict[str, Any] | None = None

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
            StateError: They cannot.
        """
        replica = Replica(objects)
        if self.version != NOT_WHOLE and not replica.holds_the_objects_of(self._replica):
            replica.restore(self._replica.capture())
        if replica.others.keys() != self._replica.others.keys():
            self._habit = frozenset(replica.others)
        self._replica = replica
        replica.drop_gradients()

    def agree(self, place: Place) -> tuple[Agreement, int]:
        """Come to the same state on all ranks of the default group.

        One small collective when all hold the same already.

        Returns:
            What was agreed, and how many completed steps that costs this worker.

        Raises:
            GenerationEnded: An order came in between; this worker's state is what it was.
            ReplicasDifferError: The ranks track different things.
        """
        mine = self._standing()
        agreed = agree(_gather(mine, place))
        if self._rng is not None:
            restore_rng(self._rng)  # scripts draw numbers while they build, between generations
        if agreed.rewind and self._snapshot and self._snapshot.version == agreed.version:
            self._replica.restore(unpack(self._snapshot.packed.frozen()))
        if agreed.receivers:
            self._copy(Route(place, agreed.sources, agreed.receivers), fresh=agreed.fresh)
        self._branch, self._newest_step = agreed.version.generation, agreed.version.step
        self._last_others = None
        self._count.start(agreed.version.step, frozenset(self._replica.optimizers))
        self._is_agreed = True
        self._page.write("version", self.version)
        return agreed, steps_lost(mine, agreed)

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

    def begin_turn(self) -> None:
        """Keep what the step will change besides the tensors that optimizers step."""
        self._turn = TurnStart.of(self._replica)
        if self._last_others is not None:
            self._habit = self._turn.moved_since(self._last_others)
        every = self._snapshot_interval()
        if every and self.step % every == 0:
            self._snapshot = None  # the old one's memory goes first
            packed = pack(self._replica.capture(), "state").frozen()
            self._snapshot = Snapshot(Version(self._branch, self.step), packed)

    def complete_turn(self, generation: int) -> None:
        """The script says that the step is completed."""
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

    def _standing(self) -> Standing:
        whole = self.version != NOT_WHOLE
        return Standing(
            version=Version(self._branch, self.version) if whole else NOTHING,
            snapshot=self._snapshot.version if self._snapshot else NOTHING,
            newest_step=self._newest_step,
            structure=self._replica.structure(),
        )

    def _copy(self, route: Route, *, fresh: bool) -> None:
        packed = None
        if route.sends:
            state = self._replica.capture()
            if fresh:
                del state["rng"]  # scripts seed each rank as they like
            packed = pack(state, "state")
        received = transfer(route, packed)
        if received is not None:
            self._replica.restore(unpack(received))

    def _snapshot_interval(self) -> int:
        if self._snapshot_every is not None:
            return self._snapshot_every
        return SNAPSHOT_EVERY if len(self._replica.optimizers) > 1 else 0


def _gather(mine: Standing, place: Place) -> list[Standing]:
    numbers = torch.tensor(mine.to_numbers(), device=place.device)
    every = numbers.new_empty(place.world_size * numbers.numel())
    dist.all_gather_single(every, numbers)
    return [Standing.from_numbers(row) for row in every.view(place.world_size, -1).tolist()]
