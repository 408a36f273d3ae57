"""EC-13: a process killed at any operation of a save, of its read-back, or of the pruning after."""

import shutil
from pathlib import Path

from everstep_checkpoint.keeping import Lineage, outdated, read_back
from everstep_checkpoint.retention import Retention
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import eligible
from everstep_contract.manifest import Manifest
from support.checkpoints import LINEAGE, save
from support.dying import dying
from support.jobs import JOB, NOW
from support.places import attempt_of, write_shard

BODY = b"0123456789"
RETENTION = Retention(keep_last=2)


def whole_save(storage: Storage, step: int) -> None:
    """All that becomes of a save, until the ones that it replaces are gone."""
    file = write_shard(attempt_of(storage, 1, step), "0-a.safetensors", [BODY] * 3)
    manifest = save(1, step).model_copy(update={"shards": (file,)})
    finish(storage, manifest)


def finish(storage: Storage, manifest: Manifest) -> None:
    storage.commit(manifest)
    storage.mark(manifest, **read_back(storage, manifest, NOW))
    for going in outdated(storage, Lineage(JOB, LINEAGE), RETENTION):
        storage.delete(going)


def chosen(storage: Storage) -> int:
    """The step that a job would be restored from, once its every byte is read."""
    best, *_ = eligible(storage.manifests()[0], LINEAGE)
    storage.verify(best)
    return best.step


def prepare(root: Path) -> Storage:
    storage = Storage(root)
    for step in (100, 200):
        whole_save(storage, step)
    return storage


def test_ec13_killed_at_any_operation_a_save_leaves_the_one_before_it_or_itself_whole(
    tmp_path: Path,
) -> None:
    storage = prepare(tmp_path / "whole")
    with dying(None) as operations:
        whole_save(storage, 300)
    seen: list[int] = []
    for moment in range(len(operations)):
        storage = prepare(tmp_path / "killed")
        with dying(moment):
            whole_save(storage, 300)
        seen.append(chosen(storage))
        assert all(storage.is_there(one) for one in storage.manifests()[0])
        storage.collect(storage.leftovers())
        whole_save(storage, 400)  # the next life goes on
        assert chosen(storage) == 400
        shutil.rmtree(tmp_path / "killed")
    assert set(seen) == {200, 300}
    assert seen == sorted(seen)


def test_ec13_an_attempt_that_a_kill_interrupted_is_finished_by_the_next_life(
    tmp_path: Path,
) -> None:
    storage = Storage(tmp_path)
    for moment in range(12):
        file = write_shard(attempt_of(storage, 1, moment), "0-a.safetensors", [BODY])
        manifest = save(1, moment).model_copy(update={"shards": (file,)})
        with dying(moment):
            storage.commit(manifest)
        finish(storage, manifest)
        assert chosen(storage) == moment
