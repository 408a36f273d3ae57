"""Which checkpoints a job may be restored from, by what lies in its folder alone."""

import logging
from pathlib import Path

from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import eligible
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart

log = logging.getLogger("everstep")


def candidates(
    root: Path, job: JobKey, lineage: str, history: tuple[GenerationStart, ...] = ()
) -> tuple[Manifest, ...]:
    """What the job may be restored from, best first; the log tells what is not, and why.

    That the files are what was written, only reading them tells.

    Args:
        root: Folder of the checkpoints of all jobs.
        job: Whose.
        lineage: The job's uid.
        history: Starts of its generations, as an order tells them. Those in the manifests count as
            well (R26).
    """
    storage = Storage(root)
    found, damaged = storage.manifests(job)
    for error in damaged:
        log.warning("not restored from: %s", error)
    for path in storage.uncommitted(job):
        log.warning("not restored from: %s: it was never committed", path)
    good = eligible(found, lineage, history)
    for manifest in found:
        if manifest not in good:
            own = manifest.lineage == lineage
            why = "training has gone back to before it" if own else "it is another job's"
            log.info("not restored from: %s: %s", storage.folder(manifest), why)
    return good
