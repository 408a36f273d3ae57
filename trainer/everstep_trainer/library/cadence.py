"""When a snapshot is due, and when it is to be made durable: the step decides, on every rank.

What the script leaves open follows a plan by what was measured. All ranks measure and take the
worst of it, after the same steps, so they have the same plan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from everstep_checkpoint.cadence import MEMBER_MTBF_SECONDS, Measured, job_mtbf_seconds, plan
from everstep_checkpoint.cadence import Cadence as Plan

from everstep_trainer.library.errors import LaunchError

ROOT_VARIABLE: Final = "EVERSTEP_CHECKPOINT_ROOT"
RESUME_VARIABLE: Final = "EVERSTEP_RESUME_FROM"
CHECKPOINT_EVERY: Final = 100
"""Steps between checkpoints until there is a plan."""
TEARABLE_SNAPSHOT_EVERY: Final = 20
"""Steps between snapshots where a step is more than one optimizer's, so that it can be torn."""
TRIAL_AFTER: Final = 4
"""Steps of a generation after which a checkpoint is written to see what one costs. It also shows
early that there is a storage that takes it."""
PLAN_AFTER: Final = tuple(8**power for power in range(1, 7))
"""Steps of a generation after which the plan is made: soon, then ever more rarely."""

Due = Literal["snapshot", "checkpoint"]


@dataclass(frozen=True)
class Wish:
    """How often, as the script says.

    Attributes:
        snapshot_every: Steps between snapshots in memory; 0 for none, None to follow the plan, or
            without checkpoints the usual: none if one optimizer steps the whole state, since then
            a step cannot be torn.
        checkpoint_every: Steps between checkpoints; 0 for none, None to follow the plan.
    """

    snapshot_every: int | None = None
    checkpoint_every: int | None = 0

    @classmethod
    def of(
        cls,
        snapshot_every: int | None,
        checkpoint_every: int | None,
        environ: Mapping[str, str],
        *,
        is_alone: bool = False,
    ) -> "Wish":
        """As the script asks for; whoever trains alone needs no folder, as nobody would commit.

        Raises:
            LaunchError: A number is negative, or checkpoints have no folder to go to.
        """
        for name, every in (
            ("snapshot_every", snapshot_every),
            ("checkpoint_every", checkpoint_every),
        ):
            if every is not None and (not isinstance(every, int) or every < 0):
                raise LaunchError(f"{name} is {every}: a whole number of steps, or 0 for never")
        root = environ.get(ROOT_VARIABLE, "")
        if is_alone:
            return cls(snapshot_every, checkpoint_every or 0)
        if checkpoint_every and not root:
            raise LaunchError(
                f"checkpoint_every is {checkpoint_every}, but {ROOT_VARIABLE} names no folder"
            )
        return cls(snapshot_every, checkpoint_every if root else 0)

    @property
    def is_open(self) -> bool:
        """Whether something is left to the plan."""
        return self.checkpoint_every is None


class Pacer:
    """Says what is due, in the running generation. Pure: told of everything.

    Args:
        wish: What the script asks for.
    """

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self._plan: Plan | None = None
        self._start = 0
        self._members = 1

    @property
    def saves_checkpoints(self) -> bool:
        """Whether there are to be any."""
        return self.wish.checkpoint_every != 0

    def keeps_any(self, optimizers: int) -> bool:
        """Whether there are to be any, or snapshots, of a state that so many optimizers step."""
        return self.saves_checkpoints or self._snapshot_every(optimizers) > 0

    def begin(self, step: int, members: int) -> None:
        """A generation begins: a newcomer has no plan, so nobody has one for some steps."""
        self._plan, self._start, self._members = None, step, members

    def due(self, step: int, optimizers: int) -> Due | None:
        """What is due before the step after ``step`` completed ones."""
        is_trial = self.wish.is_open and step - self._start == TRIAL_AFTER
        if is_trial or (step and _is_turn(step, self._checkpoint_every())):
            return "checkpoint"
        return "snapshot" if _is_turn(step, self._snapshot_every(optimizers)) else None

    def plans_at(self, step: int) -> bool:
        """Whether all ranks are to compare what they measured before the step after ``step``."""
        return self.wish.is_open and step - self._start in PLAN_AFTER

    def follow(self, every_rank: Sequence[Sequence[int]]) -> str:
        """Plan by the slowest: of each rank nanoseconds of a step, of a stall and of a flush.

        Returns:
            The plan in words; empty if it is what it was.
        """
        step, stall, flush = (max(column) / 1e9 for column in zip(*every_rank, strict=True))
        mtbf = job_mtbf_seconds(MEMBER_MTBF_SECONDS, self._members)
        found = plan(Measured(step, stall, flush, mtbf))
        if found is None or found == self._plan:
            return ""
        self._plan = found
        return (
            f"a snapshot every {found.snapshot_every} steps, a checkpoint every "
            f"{found.checkpoint_every}: a step takes {step:.3g} s, a snapshot {stall:.3g} s, "
            f"a checkpoint {flush:.3g} s"
        )

    def _checkpoint_every(self) -> int:
        if self.wish.checkpoint_every is not None:
            return self.wish.checkpoint_every
        return self._plan.checkpoint_every if self._plan else CHECKPOINT_EVERY

    def _snapshot_every(self, optimizers: int) -> int:
        if self.wish.snapshot_every is not None:
            return self.wish.snapshot_every
        if self._plan is not None:
            return self._plan.snapshot_every
        return TEARABLE_SNAPSHOT_EVERY if optimizers > 1 else 0


def _is_turn(step: int, every: int) -> bool:
    return bool(every) and step % every == 0
