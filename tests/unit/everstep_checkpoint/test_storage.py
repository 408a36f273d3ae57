"""Shards and checkpoints in a folder, and what a crash or damage does to them."""

import errno
import mmap
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from everstep_checkpoint.errors import (
    DamagedError,
    IncompleteError,
    OverwrittenError,
    StoppedError,
    StorageFullError,
)
from everstep_checkpoint.storage import MANIFEST, MARKS, Storage
from everstep_contract.manifest import Manifest, Marks
from support.jobs import JOB, NOW
from support.places import attempt_of, folder_of, verify_shard, write_shard

BODY = b"0123456789" * 1000


def prepared(
    storage: Storage, step: int = 7, *, generation: int = 1, lineage: str = "uid-1"
) -> Manifest:
    """An attempt of two shards, and the manifest that would commit it."""
    attempt = attempt_of(storage, generation, step, lineage=lineage)
    shards = [write_shard(attempt, f"{rank}-a.safetensors", [BODY, BODY]) for rank in (0, 1)]
    return Manifest(
        job=JOB,
        checkpoint=f"g{generation}-s{step}",
        lineage=lineage,
        generation=generation,
        step=step,
        shards=tuple(shards),
        committed_at=NOW,
    )


def committed(storage: Storage, step: int = 7) -> Manifest:
    manifest = prepared(storage, step)
    storage.commit(manifest)
    return manifest


def test_a_committed_checkpoint_is_found_and_whole(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage)
    assert storage.manifests() == ([manifest], [])
    storage.verify(manifest)


def test_r5_the_generations_of_a_jobs_life_are_known_by_the_names_of_folders(
    tmp_path: Path,
) -> None:
    storage = Storage(tmp_path)
    assert storage.newest_generation(JOB, "uid-1") == 0
    for generation in (9, 12):
        storage.commit(prepared(storage, generation=generation))
    prepared(storage, generation=40)  # an attempt is nothing yet
    assert storage.newest_generation(JOB, "uid-1") == 12
    assert storage.newest_generation(JOB, "uid-2") == 0


def test_an_attempt_is_no_checkpoint(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    prepared(storage)
    assert storage.manifests() == ([], [])


def test_committing_again_after_a_crash_changes_nothing(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage)
    storage.commit(manifest)
    storage.verify(manifest)


@pytest.mark.parametrize("left", [MANIFEST, f".{MANIFEST}.new", "0-zombie.safetensors"])
def test_what_a_crash_or_a_zombie_left_in_an_attempt_is_not_committed(
    tmp_path: Path, left: str
) -> None:
    storage = Storage(tmp_path)
    manifest = prepared(storage)
    (attempt_of(storage, 1, 7) / left).write_bytes(b"half")
    storage.commit(manifest)
    folder = folder_of(storage, manifest)
    assert sorted(path.name for path in folder.iterdir()) == [
        "0-a.safetensors",
        "1-a.safetensors",
        MANIFEST,
    ]


def test_a_shard_that_is_missing_or_cut_short_keeps_the_attempt_from_being_committed(
    tmp_path: Path,
) -> None:
    storage = Storage(tmp_path)
    manifest = prepared(storage)
    path = attempt_of(storage, 1, 7) / manifest.shards[1].file
    os.truncate(path, 5)
    with pytest.raises(IncompleteError, match="5 bytes, 20000 were prepared"):
        storage.commit(manifest)
    path.unlink()
    with pytest.raises(IncompleteError, match="No such file"):
        storage.commit(manifest)
    assert storage.manifests() == ([], [])


def aligned(total_bytes: int) -> memoryview:
    """Bytes that lie at a page, as storage that is written past the page cache wants them."""
    data = memoryview(mmap.mmap(-1, total_bytes))
    data[:] = (BODY * (total_bytes // len(BODY) + 1))[:total_bytes]
    return data


@pytest.mark.parametrize("total_bytes", [1, 4096, 4097, 3 * 8192 + 511, 100_000])
def test_a_shard_of_any_size_is_written_as_it_is(tmp_path: Path, total_bytes: int) -> None:
    data = aligned(total_bytes)
    shard = write_shard(tmp_path, "0-a.safetensors", [data[:8192], data[8192:]])
    assert (tmp_path / "0-a.safetensors").read_bytes() == bytes(data)
    verify_shard(tmp_path, shard)


def test_a_shard_written_again_replaces_itself_and_what_was_left_of_it(tmp_path: Path) -> None:
    write_shard(tmp_path, "0-a.safetensors", [BODY])
    (tmp_path / ".0-a.safetensors.12ab34cd").write_bytes(b"what a killed writer left")
    write_shard(tmp_path, "0-a.safetensors", [BODY])
    assert [path.name for path in tmp_path.iterdir()] == ["0-a.safetensors"]


def test_a_writer_that_was_thought_dead_harms_nothing_that_came_after_it(tmp_path: Path) -> None:
    successor = []

    def dying() -> Iterator[bytes]:
        yield BODY[:10]
        successor.append(write_shard(tmp_path, "0-a.safetensors", [BODY]))
        yield b"late"

    with pytest.raises(FileNotFoundError):
        write_shard(tmp_path, "0-a.safetensors", dying())
    verify_shard(tmp_path, successor[0])


def test_a_snapshot_that_was_written_over_leaves_no_file(tmp_path: Path) -> None:
    def torn() -> Iterator[bytes]:
        yield BODY
        raise OverwrittenError(1, 7)

    with pytest.raises(OverwrittenError):
        write_shard(tmp_path, "0-a.safetensors", torn())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_told_and_leaves_no_half_of_a_shard(tmp_path: Path, number: int) -> None:
    def filling() -> Iterator[bytes]:
        yield BODY
        raise OSError(number, os.strerror(number))

    with pytest.raises(StorageFullError, match="no room left"):
        write_shard(tmp_path, "0-a.safetensors", filling())
    assert list(tmp_path.iterdir()) == []


def damage_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path: Path) -> None:
    os.truncate(path, 100)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [damage_bit, truncate, empty, Path.unlink, replace_by_folder])
def test_ec28_every_damage_to_a_shard_is_noticed(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    storage = Storage(tmp_path)
    manifest = committed(storage)
    damage(folder_of(storage, manifest) / manifest.shards[1].file)
    with pytest.raises(DamagedError, match="1-a"):
        storage.verify(manifest)


def test_an_old_manifest_beside_new_shards_is_noticed(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    old = committed(storage, 7)
    new = prepared(storage, 8)
    (attempt_of(storage, 1, 8) / new.shards[0].file).write_bytes(b"x" * len(BODY * 2))
    storage.commit(new)
    with pytest.raises(DamagedError, match="its hash is"):
        storage.verify(new)
    storage.verify(old)


def test_a_manifest_that_is_of_another_folder_or_torn_is_told_and_hides_no_other(
    tmp_path: Path,
) -> None:
    storage = Storage(tmp_path)
    good = committed(storage, 7)
    copied, torn = committed(storage, 8), committed(storage, 9)
    (folder_of(storage, copied) / MANIFEST).write_text(good.model_dump_json())
    (folder_of(storage, torn) / MANIFEST).write_bytes(b"{")
    found, damaged = storage.manifests()
    assert found == [good]
    assert {Path(error.where).parent.name for error in damaged} == {
        folder_of(storage, one).name for one in (copied, torn)
    }


def test_a_deleted_checkpoint_is_gone_and_so_is_what_a_crash_left_of_one(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    first, second = committed(storage, 7), committed(storage, 8)
    storage.delete(first)
    folder = folder_of(storage, second)
    folder.rename(folder.with_name(f".trash-{folder.name}"))
    trash = storage.folder(second).with_name(f".trash-{folder.name}")
    assert storage.manifests() == ([], [])
    pending = prepared(storage, 9)
    attempt = storage.attempt(JOB, "uid-1", 1, 9)
    assert storage.leftovers().keys() == {trash, attempt}
    storage.collect([trash])
    assert storage.leftovers().keys() == {attempt}
    storage.commit(pending)
    storage.verify(pending)


def test_a_file_beside_the_jobs_folders_hides_no_checkpoint(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    (tmp_path / "README").write_text("of the site")
    manifest = committed(storage)
    assert storage.manifests() == ([manifest], [])


def test_a_file_that_grows_moves_the_time_of_its_attempt(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    prepared(storage)
    (before,) = storage.leftovers().values()
    shard = attempt_of(storage, 1, 7) / "0-a.safetensors"
    os.utime(shard, ns=(before + 1, before + 1))
    assert list(storage.leftovers().values()) == [before + 1]


def test_a_job_made_anew_under_its_name_meets_nothing_of_the_former_one(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    former = committed(storage)
    anew = prepared(storage, lineage="uid-2")
    storage.commit(anew)
    assert folder_of(storage, former) != folder_of(storage, anew)
    assert {one.lineage for one in storage.manifests()[0]} == {"uid-1", "uid-2"}


def test_marks_lie_beside_the_manifest_and_each_change_keeps_the_others(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage)
    storage.mark(manifest, pinned=True)
    storage.mark(manifest, verified_at=NOW)
    ((found,), _) = Storage(tmp_path).listed()
    assert found.marks == Marks(pinned=True, verified_at=NOW)


def test_a_checkpoint_that_is_marked_damaged_is_none_to_whoever_looks_for_one(
    tmp_path: Path,
) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage)
    storage.mark(manifest, damage="its hash is another")
    good, damaged = storage.manifests()
    assert good == []
    assert "its hash is another" in str(damaged[0])


def test_ec56_marks_without_room_stay_what_they_were(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage)
    storage.mark(manifest, pinned=True)
    new = folder_of(storage, manifest) / f".{MARKS}.new"
    new.symlink_to("/dev/full")  # where the kernel says that there is no space left
    with pytest.raises(StorageFullError, match=r"marks\.json: no room left"):
        storage.mark(manifest, damage="cut short")
    assert storage.read(manifest).marks == Marks(pinned=True)


def test_marks_that_cannot_be_read_keep_their_checkpoint(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage)
    (folder_of(storage, manifest) / MARKS).write_bytes(b"{")
    assert storage.read(manifest).marks == Marks(pinned=True)


def test_a_checkpoint_that_is_gone_cannot_be_marked_back_into_being(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    manifest = committed(storage)
    storage.delete(manifest)
    with pytest.raises(FileNotFoundError):
        storage.mark(manifest, pinned=True)
    assert list(tmp_path.glob("*/*")) == []


def test_a_reading_that_is_ended_says_nothing_about_the_checkpoint(tmp_path: Path) -> None:
    storage = Storage(tmp_path)
    with pytest.raises(StoppedError):
        storage.verify(committed(storage), stopped=lambda: True)


def test_ec50_a_pickle_in_an_attempt_is_deleted_and_one_in_a_checkpoint_is_never_opened(
    tmp_path: Path,
) -> None:
    storage = Storage(tmp_path / "root")
    marker = tmp_path / "code-was-run"
    evil = pickle.dumps(_TouchWhenRead(marker))
    manifest = prepared(storage)
    (attempt_of(storage, 1, 7) / ".metadata").write_bytes(evil)
    storage.commit(manifest)
    folder = folder_of(storage, manifest)
    assert not (folder / ".metadata").exists()
    (folder / ".metadata").write_bytes(evil)
    (folder / manifest.shards[0].file).write_bytes(evil)
    storage.listed()
    with pytest.raises(DamagedError, match="bytes"):
        storage.verify(manifest)
    assert not marker.exists()


class _TouchWhenRead:
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self._marker,)
