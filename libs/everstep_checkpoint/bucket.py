"""A bucket of an object store as what checkpoints lie on, by whatever fsspec can reach.

An object is there whole or not at all, and there is no rename: a checkpoint is written where it
stays, and its manifest, created only if there is none, makes it one. Stores that check that
themselves (S3, Google Cloud Storage, Azure) let the first of two committers win; for others it is
asked for beforehand, and the indexer's lease keeps a second committer away.
"""

import errno
import io
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Any, Final

import fsspec
import xxhash
from fsspec.spec import AbstractBufferedFile

from everstep_checkpoint.errors import CheckpointError, StorageFullError, UnusableRootError

PART_BYTES: Final = 32 << 20
"""Of an upload, held in memory. S3 takes 10 000 parts of an object: shards of 312 GiB."""
_FULL: Final = ("StorageFull", "QuotaExceeded", "InsufficientStorage")
"""In the errors by which MinIO, Ceph and others say that there is no room."""


class Bucket:
    """Storage below a URL such as ``s3://bucket/checkpoints``.

    Credentials and endpoints are found as fsspec's library for the scheme finds them: for S3 the
    usual AWS variables, files and roles.

    Raises:
        UnusableRootError: No library for such a URL is installed.
    """

    def __init__(self, url: str) -> None:
        try:
            options = {"use_listings_cache": False, "skip_instance_cache": True}
            fs, path = fsspec.core.url_to_fs(url, **options)
        except (ImportError, ValueError) as error:
            raise UnusableRootError(url, str(error)) from error
        self._fs: Any = fs
        self._root = PurePosixPath(path)
        self._url = url.rstrip("/")

    def where(self, key: PurePosixPath) -> str:
        return f"{self._url}/{key}" if key.parts else self._url

    def check(self) -> None:
        probe = PurePosixPath(f".everstep-{secrets.token_hex(4)}")
        self.replace(probe, b"")
        self.remove(probe)

    def names(self, key: PurePosixPath) -> list[str]:
        """There are no folders: nothing lies below a name, or the bucket itself is not there."""
        path = self._path(key)
        with self._answers(key):
            try:
                found = self._fs.ls(path, detail=False)
            except FileNotFoundError:
                if self._fs.exists(self._root.parts[0] if self._root.parts else ""):
                    return []
                raise
        return sorted(PurePosixPath(one).name for one in found if one.strip("/") != path.strip("/"))

    def size(self, key: PurePosixPath) -> int:
        with self._answers(key):
            found = self._fs.info(self._path(key))
        if found["type"] != "file":
            raise FileNotFoundError(errno.ENOENT, "no object", self.where(key))
        return int(found["size"])

    def trace(self, key: PurePosixPath) -> int:
        with self._answers(key):
            found = self._fs.find(self._path(key), detail=True)
        listing = sorted((name, one["size"], str(one.get("ETag"))) for name, one in found.items())
        return int(xxhash.xxh3_64_intdigest(repr(listing).encode()))

    def open(
        self,
        key: PurePosixPath,
        *,
        past_cache: bool = False,  # there is none
    ) -> io.RawIOBase:
        with self._answers(key):
            return _Reader(self, key, self._fs.open(self._path(key), "rb", cache_type="none"))

    def write(self, key: PurePosixPath, chunks: Iterable[memoryview | bytes]) -> None:
        """In parts; until the last one is in and all are put together, nobody sees any of it."""
        path = self._path(key)
        with self._answers(key):
            out = self._fs.open(path, "wb", block_size=PART_BYTES, autocommit=False)
        try:
            for chunk in chunks:
                with self._answers(key):
                    out.write(chunk)
            with self._answers(key):
                out.close()
                out.commit()
        except BaseException:
            if not _discard(out):
                self.remove(key)
            raise

    def replace(self, key: PurePosixPath, data: bytes) -> None:
        with self._answers(key):
            self._fs.pipe_file(self._path(key), data)

    def attempt(self, name: str) -> str:
        return name

    def is_attempt(self, name: str) -> bool:
        return False

    def publish(
        self, attempt: PurePosixPath, final: PurePosixPath, manifest: tuple[str, bytes]
    ) -> None:
        """If another one was first, his is the checkpoint."""
        assert attempt == final, "it is written where it stays"
        name, data = manifest
        try:
            with self._answers(final / name):
                self._fs.pipe_file(self._path(final / name), data, mode="create")
        except OSError:  # by what number it is told depends on the store
            if not self._is_there(final / name):
                raise

    def withdraw(self, final: PurePosixPath, manifest: str) -> PurePosixPath:
        with self._answers(final):
            self._fs.rm_file(self._path(final / manifest))
        return final

    def remove(self, key: PurePosixPath) -> None:
        with self._answers(key), suppress(FileNotFoundError):
            self._fs.rm(self._path(key), recursive=True)

    def _is_there(self, key: PurePosixPath) -> bool:
        try:
            self.size(key)
        except FileNotFoundError:
            return False
        return True

    def _path(self, key: PurePosixPath) -> str:
        return str(self._root / key)

    @contextmanager
    def _answers(self, key: PurePosixPath) -> Iterator[None]:
        """Each library has errors of its own, which nobody can name without importing it."""
        try:
            yield
        except CheckpointError:
            raise
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, "no object", self.where(key)) from error
        except Exception as error:
            if any(word in f"{error!r} {error.__cause__!r}" for word in _FULL):
                raise StorageFullError(self.where(key)) from error
            why = f"{type(error).__name__}: {error}"
            number = getattr(error, "errno", None) or errno.EIO
            raise OSError(number, why, self.where(key)) from error


class _Reader(io.RawIOBase):
    """An object as a file, one request a read."""

    def __init__(self, bucket: Bucket, key: PurePosixPath, file: Any) -> None:
        self._bucket = bucket
        self._key = key
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def readinto(self, buffer: Any) -> int:
        with self._bucket._answers(self._key):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def _discard(out: Any) -> bool:
    """Whether nobody has seen any of it: some libraries show what is being written.

    What cannot be taken back is left to the store's own rule for uploads without an end.
    """
    with suppress(Exception):
        out.discard()
    if not isinstance(out, AbstractBufferedFile):
        return False
    out.closed = True  # else it would be uploaded when it is forgotten
    return True
