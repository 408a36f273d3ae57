"""Which checkpoints a job may be restored from, by what lies in its folder alone."""

import logging
from functools import partial
from pathlib import Path

from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import eligible
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart

from everstep_trainer.library.reading import NOBODY, Errands, Watch

log = logging.getLogger("everstep")


def candidates(
    root: Path,
    job: JobKey,
    lineage: str,
    history: tuple[GenerationStart, ...] = (),
    watch: Watch = NOBODY,
) -> tuple[Manifest, ...]:
    """What the job may be restored from, best first; the log tells what is not, and why.

    That the files are what was written, only reading them tells.

    Args:
        root: Folder of the checkpoints of all jobs.
        job: Whose.
        lineage: The job's uid.
        history: Starts of its generations, as an order tells them. Those in the manifests count as
            well (R26).
        watch: Looks on, and may end it.

    Raises:
        DamagedError: The job's folder cannot be read: nobody knows whether there are checkpoints.
    """
    storage = Storage(root)
    errands = Errands(root / job.token, partial(watch.guard, 0), watch.silence_seconds)
    try:
        found, damaged, uncommitted = errands.do(
            lambda: (*storage.manifests(job), storage.uncommitted(job))
        )
    finally:
        errands.end()
    good = eligible(found, lineage, history)
    for error in damaged:
        log.warning("not restored from: %s", error)
    for folder in uncommitted:
        log.warning("not restored from: %s: it was never committed", folder)
    for manifest in found:
        if manifest not in good:
            own = manifest.lineage == lineage
            why = (
                "training has gone back to before it"
                if own
                else f"of the job with uid {manifest.lineage}, see EVERSTEP_RESUME_FROM"
            )
            level = logging.INFO if own else logging.WARNING
            log.log(level, "not restored from: %s: %s", storage.folder(manifest), why)
    return good
