"""Whatever happened to a checkpoint's files: loading says so, names the file, and gives nothing."""

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.storage import MANIFEST
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest
from everstep_trainer.library.errors import CheckpointDiffersError
from everstep_trainer.library.loading import load_rank, load_state
from everstep_trainer.library.reading import Watch
from everstep_trainer.library.regions import Region
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.jobs import JOB
from support.places import storage_of
from support.saves import WHOLE, save

IMPATIENT = Watch(silence_seconds=0.2)
Harm = Callable[[Path], object]


def flip(at: int) -> Harm:
    """Change one bit of the byte ``at`` ninths into the file."""

    def harm(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[min(at * len(content) // 9, len(content) - 1)] ^= 4
        path.write_bytes(content)

    return harm


def instead(make: Callable[[Path], object]) -> Harm:
    def harm(path: Path) -> None:
        path.unlink()
        make(path)

    return harm


def zeroed_end(path: Path) -> None:
    """What is left of a file whose last page a crash has not written."""
    content = path.read_bytes()
    path.write_bytes(content[:-16] + bytes(16))


HARMS: dict[str, tuple[Harm, str | None]] = {
    **{f"a bit flipped at {at}/9": (flip(at), None) for at in range(10)},
    "cut short by a byte": (
        lambda path: os.truncate(path, path.stat().st_size - 1),
        "were written",
    ),
    "cut short to its header's length": (lambda path: os.truncate(path, 8), "were written"),
    "longer by a byte": (lambda path: path.write_bytes(path.read_bytes() + b"\0"), "were written"),
    "empty": (lambda path: os.truncate(path, 0), "0 bytes"),
    "zeroed": (lambda path: path.write_bytes(bytes(path.stat().st_size)), None),
    "zeroed at its end": (zeroed_end, "its hash is"),
    "missing": (Path.unlink, os.strerror(errno.ENOENT)),
    "unreadable": (instead(Path.mkdir), os.strerror(errno.EISDIR)),
    "a link to itself": (instead(lambda path: path.symlink_to(path)), os.strerror(errno.ELOOP)),
    "hanging": (instead(os.mkfifo), "nothing came for 0.2 s"),
}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("harm", HARMS)
def test_any_damage_to_any_shard_of_the_state_is_noticed_and_named(
    tmp_path: Path, harm: str, number: int
) -> None:
    folder, manifest = save(tmp_path, "rows", 3)
    path = folder / manifest.of_kind("state")[number].file
    do, why = HARMS[harm]
    do(path)
    with pytest.raises(DamagedError, match=why) as caught:
        load_state(storage_of(folder), manifest, watch=IMPATIENT)
    assert caught.value.where == str(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("harm", HARMS)
def test_any_damage_to_what_a_rank_has_for_itself_is_noticed_and_named(
    tmp_path: Path, harm: str
) -> None:
    folder, manifest = save(tmp_path, "whole", 2)
    path = folder / manifest.of_kind("rank")[1].file
    HARMS[harm][0](path)
    with pytest.raises(DamagedError) as caught:
        load_rank(storage_of(folder), manifest, 1, IMPATIENT)
    assert caught.value.where == str(path)
    assert load_rank(storage_of(folder), manifest, 0) == '{"rank": 0}'


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    return save(tmp_path_factory.mktemp("good"), "rows", 2)


def _flipped_is_noticed(good: tuple[Path, Manifest], number: int, bit: int) -> None:
    folder, manifest = good
    path = folder / manifest.shards[number].file
    before = path.read_bytes()
    content = bytearray(before)
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    path.write_bytes(content)
    try:
        with pytest.raises(DamagedError) as caught:
            load_state(storage_of(folder), manifest, {n: _all_of(t) for n, t in WHOLE.items()})
        assert caught.value.where == str(path)
    finally:
        path.write_bytes(before)


def _all_of(tensor: torch.Tensor) -> Region:
    shape = tuple(tensor.shape)
    return Region(shape, (0,) * len(shape), shape)


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 1), bit=st.integers(0, 8 * 5000))
def test_a_bit_flipped_anywhere_is_noticed(
    good: tuple[Path, Manifest], number: int, bit: int
) -> None:
    _flipped_is_noticed(good, number, bit)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", [0, 1])
def test_every_bit_of_a_shard_counts(good: tuple[Path, Manifest], number: int) -> None:
    for bit in range(8 * good[1].shards[number].total_bytes):
        _flipped_is_noticed(good, number, bit)


def test_an_old_manifest_with_a_new_shard_is_noticed(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path / "old")
    changed = {
        name: ~tensor if tensor.dtype == torch.bool else tensor * 0
        for name, tensor in WHOLE.items()
    }
    newer, _ = save(tmp_path / "new", tensors=changed)
    file = manifest.of_kind("state")[0].file
    shutil.copyfile(newer / file, folder / file)
    with pytest.raises(DamagedError, match="its hash is") as caught:
        load_state(storage_of(folder), manifest)
    assert caught.value.where == str(folder / file)


@pytest.mark.parametrize("shift", ["job", "step"])
def test_a_manifest_of_something_else_is_noticed(tmp_path: Path, shift: str) -> None:
    folder, _ = save(tmp_path)
    other = JobKey(namespace="team", name="other")
    _, manifest = save(tmp_path / "x", job=other) if shift == "job" else save(tmp_path, step=9)
    (folder / MANIFEST).write_text(manifest.model_dump_json())
    damaged = {error.where: str(error) for error in storage_of(folder).listed(JOB)[1]}
    assert "it is of" in damaged[str(folder / MANIFEST)]


def test_a_wrong_hash_in_the_manifest_is_noticed(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path)
    shard = manifest.shards[0].model_copy(update={"xxh3_128": "0" * 32})
    wrong = manifest.model_copy(update={"shards": (shard, *manifest.shards[1:])})
    with pytest.raises(DamagedError, match="not 00000000"):
        load_state(storage_of(folder), wrong)


def test_a_manifest_that_lacks_a_shard_is_noticed(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path, "rows", 3)
    for listed in (manifest.shards[1:], manifest.of_kind("rank")):
        with pytest.raises(DamagedError, match="of the state, not all") as caught:
            load_state(storage_of(folder), manifest.model_copy(update={"shards": listed}))
        assert caught.value.where == str(folder)


def test_ec29_a_tensor_that_is_missing_or_not_wanted_is_named(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path)
    wanted = {name: _all_of(tensor) for name, tensor in WHOLE.items()}
    more = {**wanted, "optimizer.more": Region((1,), (0,), (1,))}
    with pytest.raises(CheckpointDiffersError, match=r"'optimizer.more' in .* is missing"):
        load_state(storage_of(folder), manifest, more)
    del wanted["model.mask"]
    with pytest.raises(CheckpointDiffersError, match=r"'model.mask' in .* is not wanted"):
        load_state(storage_of(folder), manifest, wanted)


def test_ec50_a_pickle_in_place_of_a_shard_is_refused_and_not_run(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path)
    path, marker = folder / manifest.shards[0].file, tmp_path / "ran"

    class Crafted:
        def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
            return Path.touch, (marker,)

    torch.save(Crafted(), path)
    grown = manifest.shards[0].model_copy(update={"total_bytes": path.stat().st_size})
    with pytest.raises(DamagedError):
        load_state(storage_of(folder), manifest.model_copy(update={"shards": (grown,)}))
    assert not marker.exists()
