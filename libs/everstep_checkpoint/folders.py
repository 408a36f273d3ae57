"""Operations on folders and small files that a crash cannot tear and a dead mount cannot fake."""

import errno
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Final

from everstep_checkpoint.errors import IncompleteError, StorageFullError

NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT)
"""The disk is full, or the quota."""


def entries(folder: Path) -> list[Path]:
    """What lies in a folder, by name; nothing if there is none, but only if its parent says so.

    `Path.glob` takes a folder that cannot be read, as on a dead mount, for an empty one.
    """
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        if folder.parent.is_dir():
            return []
        raise


def require_whole(path: Path, total_bytes: int) -> None:
    """Look for a file of this size.

    Raises:
        IncompleteError: It is not there, or has another size.
        OSError: Storage does not answer: nothing is known.
    """
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError) as error:
        raise IncompleteError(path, error.strerror or repr(error)) from error
    if size != total_bytes:
        raise IncompleteError(path, f"{size} bytes, {total_bytes} were prepared")


def delete_but(folder: Path, listed: Collection[str]) -> None:
    """Delete everything in a folder that is not listed by name."""
    for path in folder.iterdir():
        if path.name in listed:
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def replace(path: Path, data: bytes) -> None:
    """Write a small file so that it is there whole or as it was before, whatever happens.

    Raises:
        StorageFullError: There is no room.
        OSError: It cannot be written.
    """
    new = path.with_name(f".{path.name}.new")
    try:
        with new.open("wb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        new.rename(path)
    except OSError as error:
        if error.errno in NO_ROOM:
            new.unlink(missing_ok=True)
            raise StorageFullError(path) from error
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder outlast a crash."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
