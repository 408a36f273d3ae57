"""Which state a new generation goes on from. Pure: what every rank holds in, one answer out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from everstep_contract.facts.member import StateSource

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
        streams: A digest of each library's random state, by `rng.LIBRARIES`.
    """

    version: Version
    snapshot: Version
    newest_step: int
    structure: int
    streams: tuple[int, ...]

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
            *self.streams,
        ]

    @classmethod
    def from_numbers(cls, numbers: Sequence[int]) -> "Standing":
        """The inverse of `to_numbers`."""
        newest_step, structure, *streams = numbers[4:]
        versions = Version(*numbers[:2]), Version(*numbers[2:4])
        return cls(*versions, newest_step, structure, tuple(streams))


@dataclass(frozen=True)
class Agreement:
    """The version to go on from, and how each rank gets there.

    Attributes:
        version: Of the state.
        sources: Ranks that hold it.
        receivers: Ranks that copy it from them.
        source: What kind of copy it is.
        checkpoint: Its name, if it comes from disk.
    """

    version: Version
    sources: tuple[int, ...]
    receivers: tuple[int, ...]
    source: StateSource = "living"
    checkpoint: str = ""


def agree(standings: Sequence[Standing]) -> Agreement | None:
    """The newest state that some rank holds whole, in use; every rank of DDP is a replica (R22).

    Returns:
        None if none does: then something else has to be loaded, or the job begins.

    Raises:
        ReplicasDifferError: The ranks do not track the same objects.
    """
    _require_same_structure(standings)
    versions = [standing.version for standing in standings]
    newest = max(versions)
    if newest == NOTHING:
        return None
    return shared(newest, [version == newest for version in versions], "living")


def shared(
    version: Version, holds: Sequence[bool], source: StateSource, checkpoint: str = ""
) -> Agreement:
    """Those ranks that hold the state give it to those that do not."""
    sources = tuple(rank for rank, held in enumerate(holds) if held)
    receivers = tuple(rank for rank, held in enumerate(holds) if not held)
    return Agreement(version, sources, receivers, source, checkpoint)


def begin(standings: Sequence[Standing]) -> Agreement:
    """Step 0: rank 0's state, as the script made it.

    Raises:
        StateLostError: Some rank has done steps, so this is no beginning.
    """
    newest_step = max(standing.newest_step for standing in standings)
    if newest_step != NOT_WHOLE:
        raise StateLostError(newest_step)
    return shared(Version(0, 0), [rank == 0 for rank in range(len(standings))], "fresh")


def shared_streams(standings: Sequence[Standing], agreed: Agreement) -> tuple[bool, ...] | None:
    """Which random streams are the same on all ranks, as where a script seeds them alike.

    Returns:
        None if there are not two ranks that could be compared.
    """
    ranks = range(len(standings)) if agreed.source == "fresh" else agreed.sources
    if agreed.source not in ("fresh", "living") or len(ranks) == 1:
        return None
    columns = zip(*(standings[rank].streams for rank in ranks), strict=True)
    return tuple(len(set(column)) == 1 for column in columns)


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
