"""When a snapshot is due, and when it is to be made durable: the step decides, on every rank."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from everstep_trainer.library.errors import LaunchError

ROOT_VARIABLE: Final = "EVERSTEP_CHECKPOINT_ROOT"
CHECKPOINT_EVERY: Final = 100
"""Steps between checkpoints where there is a folder for them and nobody says how often."""

TEARABLE_SNAPSHOT_EVERY: Final = 20
"""Steps between snapshots where a step is more than one optimizer's, so that it can be torn."""
Due = Literal["snapshot", "checkpoint"]


def checkpoint_root(environ: Mapping[str, str]) -> Path | None:
    """The folder below which checkpoints lie; None where there are none."""
    root = environ.get(ROOT_VARIABLE, "")
    return Path(root) if root else None


@dataclass(frozen=True)
class Cadence:
    """How often.

    Attributes:
        snapshot_every: Steps between snapshots in memory; 0 for none, None for the usual: none if
            one optimizer steps the whole state, since then a step cannot be torn.
        checkpoint_every: Steps between checkpoints; 0 for none.
    """

    snapshot_every: int | None = None
    checkpoint_every: int = 0

    @classmethod
    def wanted(
        cls, snapshot_every: int | None, checkpoint_every: int | None, environ: Mapping[str, str]
    ) -> "Cadence":
        """As the script asks for.

        Raises:
            LaunchError: A number is negative, or checkpoints have no folder to go to.
        """
        for name, every in (
            ("snapshot_every", snapshot_every),
            ("checkpoint_every", checkpoint_every),
        ):
            if every is not None and every < 0:
                raise LaunchError(f"{name} is {every}: a number of steps, or 0 for never")
        root = checkpoint_root(environ)
        if checkpoint_every and root is None:
            raise LaunchError(
                f"checkpoint_every is {checkpoint_every}, but {ROOT_VARIABLE} names no folder"
            )
        if checkpoint_every is None:
            checkpoint_every = CHECKPOINT_EVERY if root else 0
        return cls(snapshot_every, checkpoint_every)

    def due(self, step: int, optimizers: int) -> Due | None:
        """What is due before the step after ``step`` completed ones."""
        if self.checkpoint_every and step and step % self.checkpoint_every == 0:
            return "checkpoint"
        every = self.snapshot_every
        if every is None:
            every = TEARABLE_SNAPSHOT_EVERY if optimizers > 1 else 0
        return "snapshot" if every and step % every == 0 else None
