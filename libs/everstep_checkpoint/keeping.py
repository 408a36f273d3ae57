"""What is done to committed checkpoints on storage: read back, found damaged, pruned.

Every mark lies beside its manifest, so whoever reads the folder next knows it, bus or no bus. Each
of these may be cut by a crash at any operation and done again.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest, Marks
from everstep_contract.record import GenerationStart

from everstep_checkpoint.errors import DamagedError, NoSuchCheckpointError
from everstep_checkpoint.retention import Retention, expendable
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import Listed

MAX_DAMAGE_LETTERS: Final = 2000
"""What the contract lets a text have."""


def read_back(
    storage: Storage,
    manifest: Manifest,
    at: datetime,
    *,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, object]:
    """Read a checkpoint to its last byte.

    It is the last word: one that somebody had found damaged and that reads whole here is good.

    Args:
        storage: Where it lies.
        manifest: What was committed.
        at: Now.
        stopped: Asked before each chunk; true ends the reading.

    Returns:
        The changes to its marks.

    Raises:
        StoppedError: ``stopped`` said so.
    """
    try:
        storage.verify(manifest, stopped=stopped)
    except DamagedError as error:
        return damaged(str(error))
    return {"verified_at": at, "damage": ""}


def damaged(why: str) -> dict[str, object]:
    """The changes to the marks of a checkpoint in which damage was found."""
    return {"damage": why[:MAX_DAMAGE_LETTERS] or "damaged"}


@dataclass(frozen=True)
class Lineage:
    """A job's line of checkpoints, and where its generations began as far as the bus knows."""

    job: JobKey
    uid: str
    starts: tuple[GenerationStart, ...] = ()


def lineages(listed: Iterable[Listed]) -> tuple[Lineage, ...]:
    """All that there are, as manifests alone know them."""
    found = {(one.manifest.job.token, one.manifest.lineage): one.manifest.job for one in listed}
    return tuple(Lineage(job, uid) for (_, uid), job in sorted(found.items()))


def of_lineage(listed: Iterable[Listed], lineage: Lineage) -> list[Listed]:
    """Those of one lineage."""
    whose = (lineage.job, lineage.uid)
    return [one for one in listed if (one.manifest.job, one.manifest.lineage) == whose]


def named(listed: Iterable[Listed], name: str, job: str | None = None) -> Listed:
    """The one checkpoint of this name.

    Args:
        listed: Among which it is looked for.
        name: As a manifest has it.
        job: NAMESPACE/NAME, or the uid of one of its lineages, where several have one.

    Raises:
        NoSuchCheckpointError: There is none, or more than one.
    """
    found = [
        one
        for one in listed
        if one.manifest.checkpoint == name
        and job in (None, str(one.manifest.job), one.manifest.lineage)
    ]
    if len(found) != 1:
        whose = [f"{one.manifest.job} (uid {one.manifest.lineage})" for one in found]
        raise NoSuchCheckpointError(name, whose)
    return found[0]


def outdated(
    storage: Storage, lineage: Lineage, retention: Retention, *, busy: Collection[str] = ()
) -> tuple[Manifest, ...]:
    """What of a lineage may go now, by what lies on storage now.

    One that was verified and has since lost files to somebody's hand proves nothing.
    """
    listed, _ = storage.listed(lineage.job)
    own = [_as_it_is(storage, one) for one in of_lineage(listed, lineage)]
    return expendable(own, retention, lineage.starts, busy=busy)


def _as_it_is(storage: Storage, one: Listed) -> Listed:
    if not one.is_proven or storage.is_there(one.manifest):
        return one
    return Listed(one.manifest, Marks(pinned=one.marks.pinned))
