"""Which state a new generation goes on from. Pure: what every rank holds in, one answer out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from everstep_trainer.library.errors import ReplicasDifferError, StateLostError
from everstep_trainer.library.versions import NOT_WHOLE


@dataclass(frozen=True, order=True)
class Version:
    """Names a state: the generation that completed its newest step, and how many steps it has.

    The generation is needed because a worker that was left out may hold a step that the others did
    again without it: the same number, another state. The later generation's is the job's.
    """

    generation: int
    step: int


NOTHING: Final = Version(NOT_WHOLE, NOT_WHOLE)


@dataclass(frozen=True)
class Standing:
    """What one rank brings along.

    Attributes:
        version: Of its state; `NOTHING` if it is not whole.
        snapshot: Of the snapshot in its memory.
        newest_step: The newest it ever held whole; -1 for none.
        structure: A digest of the names and shapes of its state.
    """

    version: Version
    snapshot: Version
    newest_step: int
    structure: int

    def to_numbers(self) -> list[int]:
        """As whole numbers, so that one small collective tells everybody."""
        version, snapshot = self.version, self.snapshot
        return [
            version.generation,
            version.step,
            snapshot.generation,
            snapshot.step,
            self.newest_step,
            self.structure,
        ]

    @classmethod
    def from_numbers(cls, numbers: Sequence[int]) -> "Standing":
        """The inverse of `to_numbers`."""
        *versions, newest_step, structure = numbers
        return cls(Version(*versions[:2]), Version(*versions[2:]), newest_step, structure)


@dataclass(frozen=True)
class Agreement:
    """The version to go on from, and how each rank gets there.

    With ``rewind`` every rank that has a snapshot of this version loads it, before ``receivers``
    copy from ``sources``. A ``fresh`` start is step 0 of a job whose state nobody has.
    """

    version: Version
    sources: tuple[int, ...]
    receivers: tuple[int, ...]
    rewind: bool = False
    fresh: bool = False


def agree(standings: Sequence[Standing]) -> Agreement:
    """The newest state that some rank holds whole; every rank of DDP is a full replica (R22).

    Raises:
        ReplicasDifferError: The ranks do not track the same objects.
        StateLostError: Steps were done, but no rank holds a whole state any more.
    """
    _require_same_structure(standings)
    for rewind, versions in (
        (False, [standing.version for standing in standings]),
        (True, [standing.snapshot for standing in standings]),
    ):
        newest = max(versions)
        if newest != NOTHING:
            ahead = tuple(rank for rank, version in enumerate(versions) if version == newest)
            behind = tuple(rank for rank, version in enumerate(versions) if version != newest)
            return Agreement(newest, ahead, behind, rewind)
    newest_step = max(standing.newest_step for standing in standings)
    if newest_step != NOT_WHOLE:
        raise StateLostError(newest_step)
    everybody_else = tuple(range(1, len(standings)))
    return Agreement(Version(0, 0), (0,), everybody_else, fresh=True)


def steps_lost(standing: Standing, agreed: Agreement) -> int:
    """Completed steps that this rank held and that are to be done again."""
    return max(0, standing.newest_step - agreed.version.step)


def _require_same_structure(standings: Sequence[Standing]) -> None:
    first = standings[0].structure
    others = [rank for rank, standing in enumerate(standings) if standing.structure != first]
    if others:
        raise ReplicasDifferError(
            f"ranks {others} track other objects, names or shapes than rank 0: "
            "every rank passes the same things to `track`"
        )
