"""What every storage does alike: a folder, a store of fsspec's, and S3 over HTTP."""

from collections.abc import Iterator

import pytest
from everstep_checkpoint.errors import DamagedError, IncompleteError, OverwrittenError
from everstep_checkpoint.media import Key
from everstep_checkpoint.shards import write_shard
from everstep_checkpoint.storage import MANIFEST, Storage
from everstep_contract.manifest import Manifest, Marks
from support.jobs import JOB, NOW
from support.saved import BODY, LINEAGE, prepared


def committed(storage: Storage, step: int = 7) -> Manifest:
    manifest = prepared(storage, step)
    storage.commit(manifest)
    return manifest


def test_the_root_can_be_written_to_and_nothing_is_left_of_the_trial(storage: Storage) -> None:
    storage.medium.check()
    assert storage.medium.names(Key()) == []


def test_an_attempt_is_no_checkpoint_and_what_is_committed_is_found_and_whole(
    storage: Storage,
) -> None:
    manifest = prepared(storage)
    assert storage.manifests() == storage.manifests(JOB) == ([], [])
    assert storage.uncommitted(JOB) == [storage.attempt(JOB, LINEAGE, 1, 7)]
    assert list(storage.leftovers()) == storage.uncommitted(JOB)
    for _ in range(2):  # again after a crash
        storage.commit(manifest)
        assert storage.manifests() == storage.manifests(JOB) == ([manifest], [])
    storage.verify(manifest)
    assert storage.is_there(manifest)
    assert (storage.uncommitted(JOB), storage.leftovers()) == ([], {})
    assert storage.newest_generation(JOB, LINEAGE) == 1
    assert storage.newest_generation(JOB, "uid-2") == 0


def test_what_a_zombie_left_in_an_attempt_is_no_part_of_the_checkpoint(storage: Storage) -> None:
    manifest = prepared(storage)
    zombie = storage.attempt(JOB, LINEAGE, 1, 7) / "0-zombie.safetensors"
    write_shard(storage.medium, zombie, [b"half"])
    storage.commit(manifest)
    files = {shard.file for shard in manifest.shards}
    assert set(storage.medium.names(storage.folder(manifest))) == {*files, MANIFEST}


def test_a_shard_that_is_missing_or_cut_short_keeps_the_attempt_from_being_committed(
    storage: Storage,
) -> None:
    manifest = prepared(storage)
    shard = storage.attempt(JOB, LINEAGE, 1, 7) / manifest.shards[1].file
    write_shard(storage.medium, shard, [b"short"])
    with pytest.raises(IncompleteError, match="5 bytes, 20000 were prepared"):
        storage.commit(manifest)
    storage.medium.remove(shard)
    with pytest.raises(IncompleteError):
        storage.commit(manifest)
    assert storage.manifests() == ([], [])


def test_what_the_writing_is_ended_by_leaves_no_shard(storage: Storage) -> None:
    def torn() -> Iterator[bytes]:
        yield BODY
        raise OverwrittenError(1, 7)

    shard = storage.attempt(JOB, LINEAGE, 1, 7) / "0-a.safetensors"
    with pytest.raises(OverwrittenError):
        write_shard(storage.medium, shard, torn())
    assert storage.medium.names(shard.parent) == []


@pytest.mark.parametrize("body", [b"", b"x", BODY * 2000])
def test_a_shard_of_any_size_is_read_as_it_was_written(storage: Storage, body: bytes) -> None:
    key = storage.attempt(JOB, LINEAGE, 1, 7) / "0-a.safetensors"
    shard = write_shard(storage.medium, key, [body[:4096], body[4096:]])
    assert (storage.medium.size(key), shard.total_bytes) == (len(body), len(body))
    with storage.medium.open(key) as file:
        assert file.readall() == body


def test_ec28_damage_to_a_shard_is_noticed(storage: Storage) -> None:
    manifest = committed(storage)
    shard = storage.folder(manifest) / manifest.shards[1].file
    flipped = bytearray(BODY * 2)
    flipped[777] ^= 1
    storage.medium.replace(shard, bytes(flipped))
    with pytest.raises(DamagedError, match="its hash is"):
        storage.verify(manifest)
    storage.medium.remove(shard)
    assert not storage.is_there(manifest)
    with pytest.raises(DamagedError, match="1-a"):
        storage.verify(manifest)


def test_a_manifest_of_another_checkpoint_or_a_torn_one_is_told_and_hides_no_other(
    storage: Storage,
) -> None:
    good, copied, torn = (committed(storage, step) for step in (7, 8, 9))
    data = good.model_dump_json().encode()
    storage.medium.replace(storage.folder(copied) / MANIFEST, data)
    storage.medium.replace(storage.folder(torn) / MANIFEST, b"{")
    found, damaged = storage.manifests()
    assert found == [good]
    assert {error.where for error in damaged} == {
        storage.where(storage.folder(one) / MANIFEST) for one in (copied, torn)
    }


def test_marks_lie_beside_the_manifest_and_each_change_keeps_the_others(storage: Storage) -> None:
    manifest = committed(storage)
    storage.mark(manifest, pinned=True)
    storage.mark(manifest, verified_at=NOW)
    assert storage.read(manifest).marks == Marks(pinned=True, verified_at=NOW)


def test_a_checkpoint_that_is_gone_cannot_be_marked_back_into_being(storage: Storage) -> None:
    first, second = committed(storage, 7), committed(storage, 8)
    storage.delete(first)
    assert storage.manifests() == ([second], [])
    with pytest.raises(FileNotFoundError):
        storage.mark(first, pinned=True)
    storage.collect([storage.set_aside(second)])
    assert storage.folders() == []


def test_an_attempt_that_goes_on_leaves_another_trace(storage: Storage) -> None:
    prepared(storage)
    (before,) = storage.leftovers().values()
    prepared(storage, writer="b")
    (after,) = storage.leftovers().values()
    assert before != after
    storage.collect(storage.leftovers())
    assert storage.folders() == []
