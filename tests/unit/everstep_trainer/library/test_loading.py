"""What a load tells while it goes on, and how it is ended."""

import logging
import os
from pathlib import Path

import pytest
import torch
from everstep_checkpoint.shards import CHUNK_BYTES
from everstep_checkpoint.storage import Storage
from everstep_trainer.library import loading
from everstep_trainer.library.loading import load_state
from everstep_trainer.library.reading import Watch
from support.places import storage_of
from support.saves import WHOLE, save

BIG = {"w": torch.zeros(3 * CHUNK_BYTES + 5, dtype=torch.uint8), **WHOLE}


class GenerationOverError(Exception):
    """What the one who looks on raises."""


def test_the_watch_hears_of_every_byte(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path, tensors=WHOLE)
    heard: list[int] = []
    load_state(storage_of(folder), manifest, watch=Watch(heard.append))
    assert heard == sorted(heard)
    assert heard[-1] == manifest.of_kind("state")[0].total_bytes


def test_the_watch_ends_a_load_between_two_chunks(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path, tensors=BIG)
    heard: list[int] = []

    def guard(read_bytes: int) -> None:
        heard.append(read_bytes)
        if read_bytes > CHUNK_BYTES:
            raise GenerationOverError

    with pytest.raises(GenerationOverError):
        load_state(storage_of(folder), manifest, watch=Watch(guard))
    assert heard[-1] < manifest.total_bytes // 2


def test_the_watch_ends_a_load_that_hangs(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path)
    path = folder / manifest.shards[0].file
    path.unlink()
    os.mkfifo(path)

    def guard(read_bytes: int) -> None:
        raise GenerationOverError

    with pytest.raises(GenerationOverError):
        load_state(storage_of(folder), manifest, watch=Watch(guard))


def test_the_log_tells_how_far_a_long_load_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(loading, "LOG_SECONDS", 0)
    load_state(Storage(tmp_path), save(tmp_path, step=12000)[1])
    assert "loading step 12000 of generation 1: 0.0 of 0.0 GiB" in caplog.text
