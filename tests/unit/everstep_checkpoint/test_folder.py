"""Folders: small files whole or as before, and never empty because nobody could look."""

from pathlib import Path

import pytest
from everstep_checkpoint.errors import StorageFullError
from everstep_checkpoint.folder import Folder
from everstep_checkpoint.media import Key, medium


def test_a_file_that_is_replaced_without_room_is_what_it_was(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.replace(Key("marks.json"), b"before")
    (tmp_path / ".marks.json.new").symlink_to("/dev/full")  # no space left, says the kernel
    with pytest.raises(StorageFullError, match=r"marks\.json: no room left"):
        folder.replace(Key("marks.json"), b"after")
    assert (tmp_path / "marks.json").read_bytes() == b"before"


def test_what_is_not_there_is_empty_only_while_the_root_is_there(tmp_path: Path) -> None:
    root = tmp_path / "mounted"
    root.mkdir()
    folder = Folder(root)
    assert folder.names(Key("none")) == []
    root.rmdir()
    for key in (Key("none"), Key()):
        with pytest.raises(FileNotFoundError):
            folder.names(key)


def test_only_what_is_surely_missing_is_missing(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        folder.size(Key("none"))
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(FileNotFoundError):
        folder.size(Key("file/below"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        folder.size(Key("loop"))


def test_a_root_that_is_not_there_is_not_made_by_who_writes(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "unmounted")
    with pytest.raises(FileNotFoundError):
        folder.check()
    with pytest.raises(FileNotFoundError):
        folder.write(Key("job/attempt/shard"), [b"x"])
    assert list(tmp_path.iterdir()) == []


def test_all_of_a_folder_goes_and_so_does_a_file_and_what_is_gone_is_no_trouble(
    tmp_path: Path,
) -> None:
    (tmp_path / "zombie" / "deep").mkdir(parents=True)
    (tmp_path / "zombie" / "deep" / "file").write_bytes(b"x")
    (tmp_path / "stray").write_bytes(b"x")
    for name in ("zombie", "stray", "gone"):
        Folder(tmp_path).remove(Key(name))
    assert list(tmp_path.iterdir()) == []


def test_a_path_and_its_url_are_the_same_folder(tmp_path: Path) -> None:
    for root in (tmp_path, str(tmp_path), f"file://{tmp_path}"):
        assert medium(root).where(Key("job")) == str(tmp_path / "job")
