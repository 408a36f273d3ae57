"""Which checkpoints a job may be restored from, by what lies in its folder alone."""

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import PurePosixPath

from everstep_checkpoint.storage import Storage, save_in
from everstep_checkpoint.validity import Listed, eligible, is_void
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart

from everstep_trainer.library.reading import NOBODY, Errands, Watch

log = logging.getLogger("everstep")


def candidates(
    storage: Storage,
    job: JobKey,
    lineage: str,
    history: tuple[GenerationStart, ...] = (),
    watch: Watch = NOBODY,
) -> tuple[Manifest, ...]:
    """What the job may be restored from, best first; the log tells what is not, and why.

    That the files are what was written, only reading them tells. So where nothing better is left,
    those are tried in which somebody found damage: it may be his node that is damaged.

    Args:
        storage: Of the checkpoints of all jobs.
        job: Whose.
        lineage: The job's uid.
        history: Starts of its generations, as an order tells them. Those in the manifests count as
            well (R26).
        watch: Looks on, and may end it.

    Raises:
        DamagedError: The job's folder cannot be read: nobody knows whether there are checkpoints;
            or there are none but some whose manifests cannot be read.
    """
    errands = Errands(f"checkpoints of {job}", partial(watch.guard, 0), watch.silence_seconds)
    try:
        listed, unreadable, uncommitted = errands.do(
            lambda: (*storage.listed(job), storage.uncommitted(job))
        )
    finally:
        errands.end()
    starts = {*history, *_told(listed, lineage)}
    trusted = eligible([one.manifest for one in listed if not one.marks.damage], lineage, starts)
    good = trusted or eligible([one.manifest for one in listed], lineage, starts)
    for error in unreadable:
        log.warning("not restored from: %s", error)
    for folder in uncommitted:
        log.warning("not restored from: %s: it was never committed", storage.where(folder))
    for one in listed:
        if one.manifest not in trusted and one.manifest.lineage == lineage:
            level, why = _why_not(one, starts)
            how = "only tried" if one.manifest in good else "not restored from"
            where = storage.where(storage.folder(one.manifest))
            log.log(level, "%s: %s: %s", how, where, why)
    for error in () if good else unreadable:
        save = save_in(PurePosixPath(error.where).parent.name, lineage)
        if save and not is_void(save, starts):
            raise error
    lives = sorted({one.manifest.lineage for one in listed} - {lineage})
    if lives and not good:
        log.warning(
            "no checkpoint of this life of the job, %s, but of %s (EVERSTEP_RESUME_FROM)",
            lineage,
            ", ".join(lives),
        )
    return good


def _told(listed: Iterable[Listed], lineage: str) -> set[GenerationStart]:
    """Starts of a job's generations that its manifests tell, of whatever use they are else."""
    own = (one.manifest for one in listed if one.manifest.lineage == lineage)
    return {start for manifest in own for start in manifest.history}


def _why_not(one: Listed, starts: Iterable[GenerationStart]) -> tuple[int, str]:
    if is_void(one.manifest, starts):
        return logging.INFO, "training has gone back to before it"
    return logging.WARNING, one.marks.damage
