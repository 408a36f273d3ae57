"""Folders and small files: whole or as before, and never empty because nobody could look."""

from pathlib import Path

import pytest
from everstep_checkpoint.errors import IncompleteError, StorageFullError
from everstep_checkpoint.folders import delete_but, entries, replace, require_whole


def test_a_file_that_is_replaced_without_room_is_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "marks.json"
    replace(path, b"before")
    (tmp_path / ".marks.json.new").symlink_to("/dev/full")  # no space left, says the kernel
    with pytest.raises(StorageFullError, match=r"marks\.json: no room left"):
        replace(path, b"after")
    assert path.read_bytes() == b"before"


def test_a_folder_that_is_not_there_is_empty_only_if_its_parent_can_be_asked(
    tmp_path: Path,
) -> None:
    assert entries(tmp_path / "none") == []
    with pytest.raises(FileNotFoundError):
        entries(tmp_path / "unmounted" / "none")


def test_only_what_is_surely_missing_is_missing(tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match="No such file"):
        require_whole(tmp_path / "none", 1)
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links"):
        require_whole(loop, 1)


def test_all_but_what_is_listed_goes_whatever_it_is(tmp_path: Path) -> None:
    (tmp_path / "zombie" / "deep").mkdir(parents=True)
    for name in ("kept", "stray"):
        (tmp_path / name).write_bytes(b"x")
    delete_but(tmp_path, {"kept"})
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
