"""What checkpoints lie on, a folder or a bucket, and all that is asked of either."""

import re
from collections.abc import Iterable
from io import RawIOBase
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from everstep_checkpoint.bucket import Bucket
from everstep_checkpoint.folder import Folder

Key = PurePosixPath
"""Where something lies below the root, whatever the root is."""
_URL: Final = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://")


class Medium(Protocol):
    """Storage below one root; every method raises `OSError` where nothing is known.

    Whoever writes a file of a name writes the same bytes, so it is never read in two states.
    """

    def where(self, key: Key) -> str:
        """What people, and other tools, call it."""
        ...

    def check(self) -> None:
        """Raise `OSError` unless the root is there and can be written to."""
        ...

    def names(self, key: Key) -> list[str]:
        """What lies directly below, sorted; nothing if there is nothing."""
        ...

    def size(self, key: Key) -> int:
        """Bytes of a file.

        Raises:
            FileNotFoundError: It is surely not there.
        """
        ...

    def trace(self, key: Key) -> int:
        """A number that is another one once anything in a folder has changed."""
        ...

    def open(self, key: Key, *, past_cache: bool = False) -> RawIOBase:
        """A file, for reading from its first byte on.

        ``past_cache``: from where it is kept, and not by way of this machine's memory.
        """
        ...

    def write(self, key: Key, chunks: Iterable[memoryview | bytes]) -> None:
        """Write a large file that outlasts a crash; it is there whole or not at all.

        Raises:
            StorageFullError: There is no room.
        """
        ...

    def replace(self, key: Key, data: bytes) -> None:
        """Write a small file so that it is there whole, or as it was before.

        Raises:
            StorageFullError: There is no room.
        """
        ...

    def attempt(self, name: str) -> str:
        """What the folder is called in which a checkpoint of this name is written."""
        ...

    def is_attempt(self, name: str) -> bool:
        """Whether a folder's name alone tells that it is no checkpoint; a bucket's never does."""
        ...

    def publish(self, attempt: Key, final: Key, manifest: tuple[str, bytes]) -> None:
        """Make an attempt a checkpoint by its manifest, at once; the first one counts."""
        ...

    def withdraw(self, final: Key, manifest: str) -> Key:
        """Make a checkpoint none, at once; what is left of it, to `remove`."""
        ...

    def remove(self, key: Key) -> None:
        """Delete a file, or a folder with all in it; nothing if somebody else did."""
        ...


def medium(root: str | Path) -> Medium:
    """What lies under this path or URL, such as ``s3://bucket/checkpoints``.

    Raises:
        UnusableRootError: Nothing here reads such a URL.
    """
    url = _URL.match(str(root))
    if url is None:
        return Folder(Path(root).absolute())
    if url["scheme"] == "file":
        return Folder(Path(str(root)[url.end() :]))
    return Bucket(str(root))
