"""Reading files of a storage that may hang."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.folder import Folder
from everstep_checkpoint.media import Key
from everstep_trainer.library.reading import READ_AHEAD, Errands, PatientFile
from support.polling import eventually

BODY = bytes(range(256)) * 40


def nothing() -> None:
    """Nobody is asked whether to go on."""


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Path]:
    """A file that gives ten bytes, and then neither more nor an end."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = os.open(path, os.O_RDWR)
    os.write(writer, bytes(10))
    yield path
    os.close(writer)


def opened(path: Path, silence_seconds: float = 60) -> PatientFile:
    return PatientFile(Folder(path.parent), Key(path.name), nothing, silence_seconds)


def test_runs_are_filled_in_order_from_where_they_are_to_begin(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BODY)
    spare = [memoryview(bytearray(1000)) for _ in range(READ_AHEAD + 1)]
    with opened(path) as file:
        assert (file.total_bytes(), file.read(8)) == (len(BODY), BODY[:8])
        runs = (spare[at % len(spare)] for at in range(10))
        assert b"".join(bytes(run) for run in file.stream(240, runs)) == BODY[240:10240]


def test_a_file_that_ends_too_early_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BODY)
    with opened(path) as file, pytest.raises(DamagedError, match="ends 1 bytes too early"):
        list(file.stream(0, [memoryview(bytearray(len(BODY) + 1))]))


def test_a_read_that_hangs_in_the_middle_is_given_up(pipe: Path) -> None:
    with opened(pipe, 0.2) as file, pytest.raises(DamagedError, match="nothing came for") as caught:
        file.read(11)
    assert caught.value.where == str(pipe)


def test_a_read_that_hangs_is_given_up_when_the_caller_wants_no_more(pipe: Path) -> None:
    class OverError(Exception):
        pass

    def over() -> None:
        raise OverError

    file = PatientFile(Folder(pipe.parent), Key(pipe.name), over, 60)
    with file, pytest.raises(OverError):
        file.read(11)


def test_what_the_storage_says_is_told(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match=f"{tmp_path}: Is a directory"):
        opened(tmp_path)


def test_an_answer_that_is_late_but_in_time_counts() -> None:
    polled = threading.Event()

    def late() -> bool:
        return polled.wait(60)

    errands = Errands("nfs", polled.set, 60)
    assert errands.do(late)
    errands.end()


async def test_no_thread_is_left_of_files_that_were_read(tmp_path: Path) -> None:
    before = threading.active_count()
    (tmp_path / "file").write_bytes(BODY)
    for _ in range(3):
        with opened(tmp_path / "file") as file:
            file.read(8)
    with pytest.raises(DamagedError):
        opened(tmp_path / "none")
    await eventually(lambda: threading.active_count() <= before)
