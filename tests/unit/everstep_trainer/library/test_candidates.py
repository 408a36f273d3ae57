"""Which checkpoints a job may be restored from."""

import logging
import os
from pathlib import Path

import pytest
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.storage import MANIFEST, Storage
from everstep_contract.identity import JobKey
from everstep_contract.record import GenerationStart
from everstep_trainer.library.candidates import candidates
from everstep_trainer.library.reading import Watch
from support.jobs import JOB
from support.places import attempt_of
from support.saves import LINEAGE, save

OTHER = JobKey(namespace="team", name="another")


def start(generation: int, step: int) -> GenerationStart:
    return GenerationStart(generation=generation, start_step=step)


def found(root: Path, *history: GenerationStart) -> list[str]:
    return [one.checkpoint for one in candidates(Storage(root), JOB, LINEAGE, history)]


def test_the_newest_comes_first(tmp_path: Path) -> None:
    for generation, step in ((1, 100), (2, 140), (1, 120)):
        save(tmp_path, generation=generation, step=step)
    assert found(tmp_path) == ["g2-s140", "g1-s120", "g1-s100"]


def test_a_job_that_never_saved_has_none(tmp_path: Path) -> None:
    assert found(tmp_path) == []


def test_a_root_that_is_not_there_is_no_root_without_checkpoints(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="No such file"):
        found(tmp_path / "unmounted")


def test_checkpoints_of_other_jobs_are_not_even_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, _ = save(tmp_path, job=OTHER)
    (folder / MANIFEST).write_text("{")
    save(tmp_path)
    assert found(tmp_path) == ["g1-s7"]
    assert not caplog.records


def test_a_job_of_the_same_name_and_another_uid_is_another_job(tmp_path: Path) -> None:
    save(tmp_path)
    assert candidates(Storage(tmp_path), JOB, "uid-2") == ()


def test_r26_what_training_went_back_behind_is_left_out(tmp_path: Path) -> None:
    save(tmp_path, step=100)
    save(tmp_path, step=120)
    assert found(tmp_path, start(2, 110)) == ["g1-s100"]


def test_r26_a_void_checkpoint_is_known_by_another_ones_history_alone(tmp_path: Path) -> None:
    save(tmp_path, step=100)
    save(tmp_path, step=120)
    save(tmp_path, generation=2, step=115, history=(start(2, 110),))
    assert found(tmp_path) == ["g2-s115", "g1-s100"]


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"format": 1}', "\0"])
def test_ec14_a_manifest_that_cannot_be_read_is_passed_over_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    save(tmp_path, step=100)
    folder, _ = save(tmp_path, step=120)
    (folder / MANIFEST).write_text(text)
    assert found(tmp_path) == ["g1-s100"]
    assert f"{folder / MANIFEST}: no manifest" in caplog.text


def test_a_manifest_of_another_checkpoint_is_passed_over_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, _ = save(tmp_path, step=100)
    new, _ = save(tmp_path, step=120)
    (new / MANIFEST).write_bytes((old / MANIFEST).read_bytes())
    assert found(tmp_path) == ["g1-s100"]
    assert f"{new / MANIFEST}: it is of {old}" in caplog.text


def test_ec14_a_partial_directory_is_never_chosen_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, step=200)
    cut_off, _ = save(tmp_path, step=300)
    attempt = attempt_of(Storage(tmp_path), 1, 310)
    cut_off.rename(attempt)
    (attempt / MANIFEST).unlink()
    bare, _ = save(tmp_path, step=320)
    (bare / MANIFEST).unlink()
    assert found(tmp_path) == ["g1-s200"]
    for folder in (attempt, bare):
        assert f"{folder}: it was never committed" in caplog.text


def test_the_log_tells_of_void_checkpoints(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    folder, _ = save(tmp_path, step=120)
    assert found(tmp_path, start(2, 110)) == []
    assert f"{folder}: training has gone back to before it" in caplog.text


def test_a_folder_that_does_not_answer_is_an_error_and_not_a_job_without_checkpoints(
    tmp_path: Path,
) -> None:
    folder, _ = save(tmp_path)
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    with pytest.raises(DamagedError, match="nothing came for"):
        candidates(Storage(tmp_path), JOB, LINEAGE, watch=Watch(silence_seconds=0.2))


def test_what_somebody_found_damaged_is_passed_over_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, step=100)
    folder, manifest = save(tmp_path, step=120)
    Storage(tmp_path).mark(manifest, damage="its hash is another")
    assert found(tmp_path) == ["g1-s100"]
    assert f"{folder}: its hash is another" in caplog.text


def test_where_all_are_said_to_be_damaged_they_are_tried_before_a_job_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever said so may have had a bad mount; and what is loaded is verified anyway."""
    for step in (100, 120):
        folder, manifest = save(tmp_path, step=step)
        Storage(tmp_path).mark(manifest, damage="No such file or directory")
    assert found(tmp_path) == ["g1-s120", "g1-s100"]
    assert f"only tried: {folder}: No such file" in caplog.text
    assert found(tmp_path, start(2, 110)) == ["g1-s100"]


def test_where_no_manifest_can_be_read_nobody_takes_it_for_a_job_without_checkpoints(
    tmp_path: Path,
) -> None:
    folder, _ = save(tmp_path, step=120)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(DamagedError, match="no manifest"):
        found(tmp_path)
    assert found(tmp_path, start(2, 110)) == []
    assert candidates(Storage(tmp_path), JOB, "uid-2") == ()


def test_r26_a_damaged_checkpoint_still_tells_where_training_went_back_to(tmp_path: Path) -> None:
    save(tmp_path, step=100)
    save(tmp_path, step=120)
    _, newest = save(tmp_path, generation=2, step=115, history=(start(2, 110),))
    Storage(tmp_path).mark(newest, damage="its hash is another")
    assert found(tmp_path) == ["g1-s100"]
