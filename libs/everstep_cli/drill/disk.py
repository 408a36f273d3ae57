"""Where a drill's checkpoints lie: a disk that is full for a while, and files that are damaged."""

import asyncio
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import eligible
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest

from everstep_cli.errors import CommandError

DISK_BYTES: Final = 640 << 20
"""Room for a handful of the drill's checkpoints, 65 MB each; what fills it is memory."""
REFILL_SECONDS: Final = 0.05
"""How often what pruning freed is taken away again."""
BALLAST: Final = ".ballast"
MOUNT_SECONDS: Final = 10.0


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own at ``folder``, in memory, until the end.

    Raises:
        CommandError: Mounting is not allowed here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={DISK_BYTES},mode=0755"
    refused = _run("mount", "-t", "tmpfs", "-o", options, "everstep-drill", str(folder))
    if refused:
        raise CommandError(f"disk-full needs a small file system, and none can be made: {refused}")
    try:
        yield
    finally:
        _run("umount", "--lazy", str(folder))


def _run(*command: str) -> str:
    """Run a command; what it said if it failed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MOUNT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else ""


async def keep_full(folder: Path) -> None:
    """Take all the room of a file system, and what is freed, until cancelled; then give it back."""
    path = folder / BALLAST
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        while True:
            _take_room(descriptor)
            await asyncio.sleep(REFILL_SECONDS)
    finally:
        os.close(descriptor)
        path.unlink()


def _take_room(descriptor: int) -> None:
    room = os.fstatvfs(descriptor)
    free_bytes = room.f_bavail * room.f_frsize
    try:
        if free_bytes:
            os.posix_fallocate(descriptor, os.fstat(descriptor).st_size, free_bytes)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise  # somebody else was faster: less is left the next time


def good_checkpoints(root: Path, job: JobKey) -> tuple[Manifest, ...]:
    """What lies there that the job may be restored from, best first."""
    found, _ = Storage(root).manifests(job)
    return eligible(found, found[0].lineage) if found else ()


def flip_one_byte(root: Path, manifest: Manifest) -> None:
    """Damage the largest file of a checkpoint, in its middle, as a bad disk does."""
    largest = max(manifest.shards, key=lambda shard: shard.total_bytes)
    path = root / Storage(root).folder(manifest) / largest.file
    with path.open("r+b") as file:
        file.seek(largest.total_bytes // 2)
        (byte,) = file.read(1)
        file.seek(largest.total_bytes // 2)
        file.write(bytes([byte ^ 1]))
