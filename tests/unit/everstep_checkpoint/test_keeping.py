"""What is done to committed checkpoints on storage."""

from pathlib import Path

import pytest
from everstep_checkpoint.errors import NoSuchCheckpointError
from everstep_checkpoint.keeping import Lineage, lineages, named, outdated, read_back
from everstep_checkpoint.retention import Retention
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import Listed
from everstep_contract.manifest import Manifest
from support.checkpoints import LINEAGE, save
from support.jobs import JOB, NOW
from support.places import attempt_of, folder_of, write_shard


def committed(storage: Storage, step: int) -> Manifest:
    file = write_shard(attempt_of(storage, 1, step), "0-a.safetensors", [b"0123456789"])
    manifest = save(1, step).model_copy(update={"shards": (file,)})
    storage.commit(manifest)
    return manifest


def shard_of(storage: Storage, manifest: Manifest) -> Path:
    return folder_of(storage, manifest) / manifest.shards[0].file


def test_a_reading_is_the_last_word_on_damage_that_somebody_claimed(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage, 7)
    assert read_back(storage, manifest, NOW) == {"verified_at": NOW, "damage": ""}
    shard_of(storage, manifest).write_bytes(b"012345678?")
    assert "its hash is" in str(read_back(storage, manifest, NOW)["damage"])


def test_ec28_what_lost_its_files_to_somebodys_hand_proves_nothing(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    saves = [committed(storage, step) for step in (10, 20, 30)]
    for one in saves:
        storage.mark(one, verified_at=NOW)
    lineage = Lineage(JOB, LINEAGE)
    assert outdated(storage, lineage, Retention()) == (saves[0],)
    shard_of(storage, saves[1]).unlink()
    assert outdated(storage, lineage, Retention()) == ()


def test_lineages_are_told_apart() -> None:
    listed = [Listed(save(1, 10)), Listed(save(1, 20)), Listed(save(1, 10, lineage="uid-2"))]
    assert lineages(listed) == (Lineage(JOB, LINEAGE), Lineage(JOB, "uid-2"))


def test_a_name_that_several_have_needs_a_job_or_a_uid() -> None:
    first, second = Listed(save(1, 10)), Listed(save(1, 10, lineage="uid-2"))
    with pytest.raises(NoSuchCheckpointError, match=r"several have one: .*uid-1.*uid-2"):
        named([first, second], "g1-s10")
    assert named([first, second], "g1-s10", "uid-2") == second
    with pytest.raises(NoSuchCheckpointError, match="there is none"):
        named([first], "g1-s11")
