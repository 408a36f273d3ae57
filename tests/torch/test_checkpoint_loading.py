"""A checkpoint of any world size loads at any other, to the bit, by us and by stock tools."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from everstep_checkpoint.shards import CHUNK_BYTES
from everstep_checkpoint.storage import Storage
from everstep_trainer.library.loading import load_rank, load_state
from everstep_trainer.library.regions import Region, region_of
from safetensors import safe_open
from safetensors.torch import load_file
from support.places import storage_of
from support.saves import WHOLE, WORLD_SIZES, Cut, moves, part, region, same, save
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

CUTS: tuple[Cut, ...] = ("whole", "rows", "columns")
pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")


@pytest.fixture
def no_group_left() -> Iterator[None]:
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def sharded(world_size: int, rank: int, placement: Placement) -> dict[str, torch.Tensor]:
    """Zeros in the shapes of the whole, as one rank of a group holds them; 0-d ones replicated."""
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())
    mesh = init_device_mesh("cpu", (world_size,))
    return {
        name: torch.distributed.tensor.zeros(
            tensor.shape,
            dtype=tensor.dtype,
            device_mesh=mesh,
            placements=[placement if tensor.dim() else Replicate()],
        )
        for name, tensor in WHOLE.items()
    }


def local(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.to_local() for name, t in tensors.items() if isinstance(t, DTensor)}


def regions(cut: Cut, world_size: int, rank: int) -> dict[str, Region]:
    """What a rank holds; of tensors that cannot be cut, all."""
    shapes = {name: tuple(tensor.shape) for name, tensor in WHOLE.items()}
    return {
        name: region(shape, cut, world_size, rank) or Region((), (), ())
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("cut", CUTS)
def test_every_tensor_comes_back_whole(tmp_path: Path, cut: Cut, world_size: int) -> None:
    loaded = load_state(Storage(tmp_path), save(tmp_path, cut, world_size)[1])
    assert same(loaded.tensors, WHOLE)
    assert json.loads(loaded.text) == {"state": 0}


@pytest.mark.parametrize(("saved", "loading"), moves())
@pytest.mark.parametrize("cut", CUTS)
def test_ec29_every_rank_of_another_world_gets_its_part(
    tmp_path: Path, cut: Cut, saved: int, loading: int
) -> None:
    folder, manifest = save(tmp_path, cut, saved)
    for wanted in (regions(to, loading, rank) for to in CUTS[1:] for rank in range(loading)):
        expected = {name: part(tensor, wanted[name]) for name, tensor in WHOLE.items()}
        assert same(load_state(storage_of(folder), manifest, wanted).tensors, expected)


@pytest.mark.usefixtures("no_group_left")
@pytest.mark.parametrize(("saved", "loading"), moves())
def test_sharded_tensors_get_the_same_from_us_and_from_stock_dcp(
    tmp_path: Path, saved: int, loading: int
) -> None:
    folder, manifest = save(tmp_path, "rows", saved)
    for rank in range(loading):
        targets = sharded(loading, rank, Shard(0))
        wanted = {name: region_of(tensor) for name, tensor in targets.items()}
        load(targets, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
        assert same(load_state(storage_of(folder), manifest, wanted).tensors, local(targets))


@pytest.mark.parametrize("world_size", WORLD_SIZES)
@pytest.mark.parametrize("cut", CUTS)
def test_stock_dcp_reads_the_folder_with_the_ranks_own_shards_in_it(
    tmp_path: Path, cut: Cut, world_size: int
) -> None:
    folder, _ = save(tmp_path, cut, world_size)
    found = {name: torch.zeros_like(tensor) for name, tensor in WHOLE.items()}
    load(found, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=True)
    assert same(found, WHOLE)


def test_stock_safetensors_opens_every_shard(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path, "whole", 2)
    state, *ranks = (folder / shard.file for shard in manifest.shards)
    assert same(load_file(state), WHOLE)
    for rank, path in enumerate(ranks):
        assert load_file(path) == {}
        with safe_open(path, framework="pt") as shard:
            assert json.loads(shard.metadata()["everstep"]) == {"rank": rank}


def test_each_rank_finds_what_it_saved_for_itself(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path, "whole", 3)
    assert [load_rank(storage_of(folder), manifest, rank) for rank in range(4)] == [
        '{"rank": 0}',
        '{"rank": 1}',
        '{"rank": 2}',
        None,
    ]


def test_more_chunks_than_there_are_buffers_for_come_back(tmp_path: Path) -> None:
    small = {f"{at}.small": torch.rand(3 << 16) for at in range(40)}
    large = {f"{at}.large": torch.rand(5, 1 << 20) for at in range(3)}
    folder, manifest = save(tmp_path, tensors=small | large)
    assert same(load_state(storage_of(folder), manifest).tensors, small | large)
    halves = {name: Region((5, 1 << 20), (0, 1 << 19), (5, 1 << 19)) for name in large}
    wanted = {name: region_of(tensor) for name, tensor in small.items()} | halves
    expected = small | {name: part(large[name], halves[name]) for name in large}
    assert same(load_state(storage_of(folder), manifest, wanted).tensors, expected)


def test_tensors_are_on_the_cpu_wherever_the_script_has_new_ones(tmp_path: Path) -> None:
    folder, manifest = save(tmp_path)
    with torch.device("meta"):
        loaded = load_state(storage_of(folder), manifest)
    assert same(loaded.tensors, WHOLE)


def test_a_load_takes_memory_for_the_state_once_and_a_few_chunks(tmp_path: Path) -> None:
    large = {f"{at}.weight": torch.rand(1 << 22) for at in range(8)}  # of 16 MiB each
    folder, manifest = save(tmp_path, tensors=large | WHOLE)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what there is now
    before = _peak_bytes()
    loaded = load_state(storage_of(folder), manifest)
    state = sum(tensor.nbytes for tensor in loaded.tensors.values())
    assert _peak_bytes() - before < state + 6 * CHUNK_BYTES


def _peak_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
