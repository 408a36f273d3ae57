"""Checkpoints on storage: shards written whole or not at all, commits that a crash cannot tear.

    <root>/<job>/g<generation>-s<step>-<lineage>/{manifest.json,*.safetensors}    a checkpoint
    <root>/<job>/g<generation>-s<step>-<lineage>/marks.json                       if it has any
    <root>/<job>/.tmp-g<generation>-s<step>-<lineage>/*.safetensors               an attempt

In a bucket an attempt has the checkpoint's name from the beginning; without a manifest it is none.

The lineage is eight digits of a hash: a job that is made anew under its name may count generations
from 1 again, and what it saves must not meet what the former one saved.

One process, the checkpoint indexer, commits, marks and deletes; any number write shards, each under
its own name.
"""

import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import xxhash
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest, Marks, checkpoint_name
from pydantic import ValidationError

from everstep_checkpoint.errors import (
    DamagedError,
    IncompleteError,
    UnusableRootError,
)
from everstep_checkpoint.media import Key, Medium, medium
from everstep_checkpoint.shards import verify_shard
from everstep_checkpoint.validity import Listed

MANIFEST: Final = "manifest.json"
MARKS: Final = "marks.json"
_LINEAGE_DIGITS: Final = 8
_FOLDER: Final = re.compile(
    r"g(?P<generation>[0-9]{1,18})-s(?P<step>[0-9]{1,18})-(?P<lineage>[0-9a-f]+)"
)


def folder_name(manifest: Manifest) -> str:
    """What the folder of a committed checkpoint is called."""
    return _folder_name(manifest.lineage, manifest.generation, manifest.step)


def _folder_name(lineage: str, generation: int, step: int) -> str:
    return f"{checkpoint_name(generation, step)}-{_digits(lineage)}"


class SaveName(NamedTuple):
    """What the name of a checkpoint's folder tells, whatever has become of its manifest."""

    generation: int
    step: int


def save_in(folder: str, lineage: str) -> SaveName | None:
    """Of which save a folder is by its name; None if it is none of this lineage."""
    found = _FOLDER.fullmatch(folder)
    if not found or found["lineage"] != _digits(lineage):
        return None
    return SaveName(int(found["generation"]), int(found["step"]))


def _digits(lineage: str) -> str:
    return xxhash.xxh3_64(lineage.encode()).hexdigest()[:_LINEAGE_DIGITS]


def storage_at(root: str, *, to_write: bool = False) -> "Storage":
    """Storage of which it is certain that it can be looked into, or written to.

    Only writing tells whether one may: shared storage may have users of its own.

    Raises:
        UnusableRootError: It cannot.
    """
    storage = Storage(root)
    try:
        storage.medium.check() if to_write else storage.medium.names(Key())
    except OSError as error:
        what = "cannot write there" if to_write else "cannot look there"
        raise UnusableRootError(root, f"{what}: {error.strerror or error}") from error
    return storage


class Storage:
    """The checkpoints of all jobs below one root, a folder or a URL.

    Attributes:
        medium: What they lie on.

    Raises:
        UnusableRootError: The root is a URL that nothing here reads.
    """

    def __init__(self, root: str | Path) -> None:
        self.medium: Medium = medium(root)
        self._marking = threading.Lock()

    def where(self, key: Key) -> str:
        """What people call what lies there."""
        return self.medium.where(key)

    def attempt(self, job: JobKey, lineage: str, generation: int, step: int) -> Key:
        """The folder that shards of this save are written into."""
        name = self.medium.attempt(_folder_name(lineage, generation, step))
        return self._of(job) / name

    def folder(self, manifest: Manifest) -> Key:
        """Where a committed checkpoint lies."""
        return self._of(manifest.job) / folder_name(manifest)

    def folders(self) -> list[Key]:
        """All attempts and checkpoints of all jobs, by their folders' names alone.

        Raises:
            OSError: A folder cannot be looked into: nobody knows what is in it.
        """
        found: list[Key] = []
        for name in self.medium.names(Key()):
            with suppress(NotADirectoryError):  # a file of the site's
                found += self._below(Key(name))
        return found

    def commit(self, manifest: Manifest) -> None:
        """Make an attempt a checkpoint; done again after a crash, it changes nothing.

        What the manifest does not list is deleted, before the commit and, if a zombie wrote it
        meanwhile, after: tools that read a whole folder would take it for part of the checkpoint.

        Raises:
            IncompleteError: A shard is missing or cut short.
            StorageFullError: There is no room for the manifest.
            OSError: Storage does not answer: nothing is known.
        """
        final = self.folder(manifest)
        if self._is_there(final / MANIFEST):
            return
        attempt = self.attempt(manifest.job, manifest.lineage, manifest.generation, manifest.step)
        for shard in manifest.shards:
            self._require_whole(attempt / shard.file, shard.total_bytes)
        if attempt != final:
            self._remove_but(attempt, {shard.file for shard in manifest.shards})
        data = manifest.model_dump_json(indent=1).encode()
        self.medium.publish(attempt, final, (MANIFEST, data))
        there = self.read(manifest).manifest
        self._remove_but(final, {*(shard.file for shard in there.shards), MANIFEST, MARKS})

    def manifests(self, job: JobKey | None = None) -> tuple[list[Manifest], list[DamagedError]]:
        """All checkpoints that nothing bad is known of, and what is wrong with all others.

        Args:
            job: Whose only; None for those of all jobs.
        """
        found, damaged = self.listed(job)
        good = [one.manifest for one in found if not one.marks.damage]
        known = [
            DamagedError(self.where(self.folder(one.manifest)), one.marks.damage)
            for one in found
            if one.marks.damage
        ]
        return good, damaged + known

    def listed(self, job: JobKey | None = None) -> tuple[list[Listed], list[DamagedError]]:
        """All committed checkpoints with their marks, and what is wrong where none can be told.

        Raises:
            OSError: A folder cannot be looked into: nobody knows what is in it.
        """
        found: list[Listed] = []
        damaged: list[DamagedError] = []
        for folder in self._below(self._of(job)) if job else self.folders():
            if not folder.name.startswith("g") or not self._is_there(folder / MANIFEST):
                continue
            try:
                found.append(self._read(folder))
            except DamagedError as error:
                if self._is_there(folder / MANIFEST):  # else it was deleted while we looked
                    damaged.append(error)
        return found, damaged

    def newest_generation(self, job: JobKey, lineage: str) -> int:
        """The highest generation that a folder of this life of a job is named by; 0 for none.

        Raises:
            OSError: The folder cannot be looked into.
        """
        saves = (save_in(folder.name, lineage) for folder in self._below(self._of(job)))
        return max((save.generation for save in saves if save), default=0)

    def uncommitted(self, job: JobKey) -> list[Key]:
        """Folders of a job that are no checkpoints: a save is going on, or was cut off."""
        return [
            folder
            for folder in self._below(self._of(job))
            if (self.medium.is_attempt(folder.name) or folder.name.startswith("g"))
            and not self._is_there(folder / MANIFEST)
        ]

    def read(self, manifest: Manifest) -> Listed:
        """A committed checkpoint as it lies there.

        Raises:
            DamagedError: There is none.
        """
        return self._read(self.folder(manifest))

    def mark(self, manifest: Manifest, **changes: object) -> Marks:
        """Change a checkpoint's marks, all or none of them.

        Raises:
            FileNotFoundError: The checkpoint is gone.
            StorageFullError: There is no room; the marks are what they were.
            OSError: They cannot be written.
        """
        folder = self.folder(manifest)
        with self._marking:
            self.medium.size(folder / MANIFEST)
            marks = self._marks_in(folder).model_copy(update=changes)
            self.medium.replace(folder / MARKS, marks.model_dump_json().encode())
        return marks

    def verify(self, manifest: Manifest, *, stopped: Callable[[], bool] = lambda: False) -> None:
        """Read a whole checkpoint back.

        Raises:
            DamagedError: The first file that is not what was written.
            StoppedError: ``stopped``, asked now and then, said so.
        """
        folder = self.folder(manifest)
        for shard in manifest.shards:
            verify_shard(self.medium, folder / shard.file, shard, stopped=stopped)

    def is_committed(self, manifest: Manifest) -> bool:
        """Whether there is such a checkpoint.

        Raises:
            OSError: Storage does not answer: nothing is known.
        """
        return self._is_there(self.folder(manifest) / MANIFEST)

    def is_there(self, manifest: Manifest) -> bool:
        """Whether all its files are still there, each in its size; reads none of them.

        Raises:
            OSError: Storage does not answer: nothing is known.
        """
        try:
            for shard in manifest.shards:
                self._require_whole(self.folder(manifest) / shard.file, shard.total_bytes)
        except IncompleteError:
            return False
        return True

    def delete(self, manifest: Manifest) -> None:
        """Delete a checkpoint; nobody ever sees half of one."""
        self.medium.remove(self.set_aside(manifest))

    def set_aside(self, manifest: Manifest) -> Key:
        """Make a checkpoint none, at once; what is left of it, to `collect`, is returned."""
        return self.medium.withdraw(self.folder(manifest), MANIFEST)

    def leftovers(self) -> dict[Key, int]:
        """Attempts, and deletions that a crash cut short: folder -> a trace of what is in it."""
        found: dict[Key, int] = {}
        for folder in self.folders():
            if self._is_leftover(folder):
                try:
                    found[folder] = self.medium.trace(folder)
                except FileNotFoundError:  # committed, or gone, while we looked
                    continue
        return found

    def collect(self, leftovers: Iterable[Key]) -> None:
        """Delete what `leftovers` found and nobody will commit."""
        for folder in leftovers:
            self.medium.remove(folder)

    def _is_leftover(self, folder: Key) -> bool:
        if self.medium.is_attempt(folder.name):
            return True
        is_attempt = self.medium.attempt(folder.name) == folder.name
        return (
            is_attempt
            and bool(_FOLDER.fullmatch(folder.name))
            and not self._is_there(folder / MANIFEST)
        )

    def _of(self, job: JobKey) -> Key:
        return Key(job.token)

    def _below(self, folder: Key) -> list[Key]:
        return [folder / name for name in self.medium.names(folder)]

    def _is_there(self, key: Key) -> bool:
        try:
            self.medium.size(key)
        except FileNotFoundError:
            return False
        return True

    def _require_whole(self, key: Key, total_bytes: int) -> None:
        try:
            size = self.medium.size(key)
        except FileNotFoundError as error:
            raise IncompleteError(self.where(key), error.strerror or repr(error)) from error
        if size != total_bytes:
            raise IncompleteError(self.where(key), f"{size} bytes, {total_bytes} were prepared")

    def _remove_but(self, folder: Key, listed: set[str]) -> None:
        for name in self.medium.names(folder):
            if name not in listed:
                self.medium.remove(folder / name)

    def _read(self, folder: Key) -> Listed:
        where = self.where(folder / MANIFEST)
        try:
            manifest = Manifest.model_validate_json(self._bytes(folder / MANIFEST))
        except (OSError, ValidationError) as error:
            raise DamagedError(where, f"no manifest: {error}") from error
        if self.folder(manifest) != folder:
            raise DamagedError(where, f"it is of {self.where(self.folder(manifest))}")
        return Listed(manifest, self._marks_in(folder))

    def _marks_in(self, folder: Key) -> Marks:
        """Marks that cannot be read keep their checkpoint: it might have been pinned."""
        try:
            return Marks.model_validate_json(self._bytes(folder / MARKS))
        except FileNotFoundError:
            return Marks()
        except (OSError, ValidationError):
            return Marks(pinned=True)

    def _bytes(self, key: Key) -> bytes:
        with self.medium.open(key) as file:
            return file.readall()
