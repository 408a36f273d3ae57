"""Checkpoints go out for stock tools, and come in from safetensors files, without a pickle read."""

import pickle
from pathlib import Path

import pytest
import torch
from everstep_checkpoint.errors import DamagedError, UnfitError
from everstep_checkpoint.layout import lay_out
from everstep_checkpoint.media import Key
from everstep_checkpoint.storage import Storage
from everstep_checkpoint.validity import eligible
from everstep_contract.manifest import Manifest, checkpoint_name
from everstep_trainer import checkpoint_commands
from everstep_trainer.exporting import export_dcp, export_safetensors, export_torch
from everstep_trainer.importing import Wanted, import_checkpoint
from everstep_trainer.library.loading import load_state
from everstep_trainer.library.pieces import piece_of
from everstep_trainer.library.tree import Packed, pack, unpack
from safetensors.torch import load_file, save_file
from support.jobs import JOB, NOW
from support.places import attempt_of, folder_of, write_shard
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

LINEAGE = "uid-1"
MODEL = {
    "layer.weight": torch.arange(48, dtype=torch.float32).reshape(16, 3),
    "layer.half": torch.arange(8, dtype=torch.bfloat16),
    "layer.steps": torch.tensor(7),
}
STATE = {
    "model": MODEL,
    "optimizer": {"layer.weight": {"exp_avg": torch.full((16, 3), 0.5)}},
    "scheduler": {"last_lr": [0.1 + 0.2], "step": 7},
}
WANTED = Wanted(JOB, "uid-2", 100)


def raw(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    (tmp_path / "root").mkdir()
    return Storage(tmp_path / "root")


@pytest.fixture
def saved(storage: Storage) -> Manifest:
    """The state, cut by rows over two shards where it has rows, as its writers leave it."""
    packed = pack(STATE, "state")
    attempt, shards = attempt_of(storage, 3, 7), []
    for shard in (0, 1):
        parts = {}
        for name, tensor in packed.tensors.items():
            if tensor.dim() == 0:
                if shard == 0:
                    parts[piece_of(name, tensor)] = tensor
                continue
            cut = tensor.tensor_split(2)[shard]
            offsets = (shard * (len(tensor) // 2),) + (0,) * (tensor.dim() - 1)
            parts[piece_of(name, cut, offsets)] = cut
        layout = lay_out(list(parts), packed.text)
        body = [raw(parts[piece]) for piece in layout.pieces]
        file = f"state-{shard:05d}-of-00002-a.safetensors"
        written = write_shard(attempt, file, [layout.header, *body])
        shards.append(written.model_copy(update={"shard": shard}))
    manifest = Manifest(
        job=JOB,
        checkpoint=checkpoint_name(3, 7),
        lineage=LINEAGE,
        generation=3,
        step=7,
        shards=tuple(shards),
        committed_at=NOW,
    )
    storage.commit(manifest)
    return manifest


def assert_equal(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_stock_safetensors_opens_one_file_with_all_tensors_whole(
    storage: Storage, saved: Manifest, tmp_path: Path
) -> None:
    export_safetensors(storage, saved, tmp_path / "out.safetensors")
    assert_equal(load_file(tmp_path / "out.safetensors"), pack(STATE, "state").tensors)


def test_one_object_is_exported_under_its_own_names(
    storage: Storage, saved: Manifest, tmp_path: Path
) -> None:
    export_safetensors(storage, saved, tmp_path / "model.safetensors", only="model")
    assert_equal(load_file(tmp_path / "model.safetensors"), MODEL)
    with pytest.raises(UnfitError, match="no object 'critic', only model, optimizer, scheduler"):
        export_safetensors(storage, saved, tmp_path / "critic.safetensors", only="critic")


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_stock_dcp_reads_the_exported_folder(
    storage: Storage, saved: Manifest, tmp_path: Path
) -> None:
    export_dcp(storage, saved, tmp_path / "dcp")
    wanted = pack(STATE, "state").tensors
    found = {name: torch.zeros_like(tensor) for name, tensor in wanted.items()}
    reader = HuggingFaceStorageReader(str(tmp_path / "dcp"))
    load(found, storage_reader=reader, no_dist=True)
    assert_equal(found, wanted)


def test_a_torch_file_holds_the_nested_state_and_nothing_that_needs_trust(
    storage: Storage, saved: Manifest, tmp_path: Path
) -> None:
    export_torch(storage, saved, tmp_path / "out.pt")
    found = torch.load(tmp_path / "out.pt", weights_only=True)
    assert found["scheduler"] == STATE["scheduler"]
    assert_equal(found["model"], MODEL)


@pytest.mark.parametrize("export", [export_dcp, export_safetensors, export_torch])
def test_a_damaged_checkpoint_is_not_exported_as_good(
    storage: Storage, saved: Manifest, tmp_path: Path, export: object
) -> None:
    assert callable(export)
    shard = folder_of(storage, saved) / saved.shards[1].file
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    with pytest.raises(DamagedError):
        export(storage, saved, tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_an_export_writes_over_nothing(storage: Storage, saved: Manifest, tmp_path: Path) -> None:
    (tmp_path / "out.pt").write_bytes(b"mine")
    with pytest.raises(UnfitError, match="it is there already"):
        export_torch(storage, saved, tmp_path / "out.pt")
    assert (tmp_path / "out.pt").read_bytes() == b"mine"


@pytest.mark.parametrize("way", ["safetensors", "dcp"])
def test_what_was_exported_whole_comes_back_whole_for_another_job(
    storage: Storage, saved: Manifest, tmp_path: Path, way: str
) -> None:
    source = tmp_path / "out.safetensors"
    {"safetensors": export_safetensors, "dcp": export_dcp}[way](storage, saved, source)
    manifest = import_checkpoint(storage, source, WANTED, NOW)
    assert eligible(storage.manifests(JOB)[0], "uid-2") == (manifest,)
    assert storage.read(manifest).is_proven
    loaded = load_state(storage, manifest)
    state = unpack(Packed(loaded.text, loaded.tensors))
    assert state["scheduler"] == STATE["scheduler"]
    assert_equal(state["model"], MODEL)


def test_a_model_from_elsewhere_becomes_the_object_that_the_job_tracks_it_as(
    storage: Storage, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    names = list(MODEL)
    save_file({names[0]: MODEL[names[0]]}, folder / "model-00001-of-00002.safetensors")
    save_file(
        {name: MODEL[name] for name in names[1:]}, folder / "model-00002-of-00002.safetensors"
    )
    with pytest.raises(UnfitError, match="name the object"):
        import_checkpoint(storage, folder, WANTED, NOW)
    wanted = Wanted(JOB, "uid-2", 0, tracked_as="policy")
    manifest = import_checkpoint(storage, folder, wanted, NOW)
    loaded = load_state(storage, manifest)
    assert_equal(unpack(Packed(loaded.text, loaded.tensors))["policy"], MODEL)


def test_a_folder_that_lacks_a_shard_is_refused_by_the_name_of_the_tensor(
    storage: Storage, saved: Manifest, tmp_path: Path
) -> None:
    export_dcp(storage, saved, tmp_path / "dcp")
    (tmp_path / "dcp" / saved.shards[0].file).unlink()
    with pytest.raises(UnfitError, match="a part of tensor"):
        import_checkpoint(storage, tmp_path / "dcp", WANTED, NOW)


def test_the_same_import_twice_is_refused(
    storage: Storage, saved: Manifest, tmp_path: Path
) -> None:
    export_safetensors(storage, saved, tmp_path / "out.safetensors")
    import_checkpoint(storage, tmp_path / "out.safetensors", WANTED, NOW)
    with pytest.raises(UnfitError, match="has a checkpoint g0-s100 already"):
        import_checkpoint(storage, tmp_path / "out.safetensors", WANTED, NOW)


@pytest.mark.parametrize("name", ["model.pt", "pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("inside", ["a folder", "nothing"])
def test_ec50_a_pickle_is_refused_and_never_run(
    storage: Storage, tmp_path: Path, name: str, inside: str
) -> None:
    marker, source = tmp_path / "code-was-run", tmp_path / "given"
    source.mkdir()
    (source / name).write_bytes(pickle.dumps(_TouchWhenRead(marker)))
    given = source if inside == "a folder" else source / name
    with pytest.raises(UnfitError, match=r"a pickle|cannot be read"):
        import_checkpoint(storage, given, WANTED, NOW)
    assert not marker.exists()


class _TouchWhenRead:
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return Path.touch, (self._marker,)


def test_the_commands_take_a_checkpoint_out_and_bring_it_in(
    storage: Storage, saved: Manifest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, root = str(tmp_path / "out.safetensors"), storage.where(Key())
    export = ["g3-s7", out, "--to", "safetensors", "--root", root]
    assert checkpoint_commands.export_checkpoint(export) == 0
    assert "g3-s7 of team.a/llama.ft: verified, written to" in capsys.readouterr().out
    job = ["--job", "team.b/next", "--uid", "uid-3", "--step", "7"]
    assert checkpoint_commands.import_checkpoint([out, *job, "--root", root]) == 0
    assert {one.checkpoint for one in storage.manifests()[0]} == {"g3-s7", "g0-s7"}
    assert checkpoint_commands.export_checkpoint(export) == 1
    assert "it is there already" in capsys.readouterr().err


def test_a_root_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = ["--job", "team/job", "--uid", "u", "--step", "1", "--root", str(tmp_path / "nothing")]
    with pytest.raises(SystemExit):
        checkpoint_commands.import_checkpoint([str(tmp_path), *job])
    assert f"{tmp_path / 'nothing'}: cannot look there: No such file" in capsys.readouterr().err
