"""A disk that is full for a while, and a file that is damaged."""

import asyncio
import errno
import os
from pathlib import Path

import pytest
from everstep_bus.background import background
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.storage import Storage
from everstep_cli.drill.disk import flip_one_byte, good_checkpoints, keep_full, small_disk
from everstep_cli.errors import CommandError
from everstep_contract.manifest import Manifest
from support.checkpoints import save
from support.jobs import JOB
from support.places import attempt_of, write_shard
from support.polling import eventually


def committed(root: Path, step: int) -> Manifest:
    storage, manifest = Storage(root), save(1, step)
    attempt = attempt_of(storage, 1, step)
    shard = write_shard(attempt, manifest.shards[0].file, [bytes(range(10))])
    manifest = manifest.model_copy(update={"shards": (shard,)})
    storage.commit(manifest)
    return manifest


def test_a_flipped_byte_is_damage_in_one_file(tmp_path: Path) -> None:
    manifest = committed(tmp_path, step=10)
    flip_one_byte(tmp_path, manifest)
    with pytest.raises(DamagedError, match="its hash is"):
        Storage(tmp_path).verify(manifest)


def test_the_best_checkpoint_comes_first(tmp_path: Path) -> None:
    for step in (10, 20):
        committed(tmp_path, step=step)
    assert [one.step for one in good_checkpoints(tmp_path, JOB)] == [20, 10]


def test_a_job_that_has_saved_nothing_has_no_checkpoint(tmp_path: Path) -> None:
    assert good_checkpoints(tmp_path, JOB) == ()


async def test_a_full_disk_has_room_again_afterwards(tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "disk"):
            await fill_and_empty(tmp_path / "disk")
    except CommandError as error:
        pytest.skip(str(error))
    assert not (tmp_path / "disk").is_mount()


async def fill_and_empty(folder: Path) -> None:
    freed = folder / "freed"
    freed.write_bytes(bytes(1 << 20))
    async with background(keep_full(folder)):
        await eventually(lambda: not room_bytes(folder))
        freed.unlink()
        await eventually(lambda: not room_bytes(folder))
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            freed.write_bytes(bytes(1 << 20))
    await asyncio.to_thread(freed.write_bytes, bytes(1 << 20))


def room_bytes(folder: Path) -> int:
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize
