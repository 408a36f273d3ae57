"""Stock tools read our shards: safetensors one, torch.distributed.checkpoint a folder of them."""

import json
from pathlib import Path

import pytest
import torch
from everstep_checkpoint.layout import Piece, lay_out
from everstep_checkpoint.storage import write_shard
from safetensors import safe_open
from safetensors.torch import load_file
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import load

WORLD_SIZES = (1, 2, 3, 4, 8)
WHOLE = {
    "model.weight": torch.arange(48, dtype=torch.float32).reshape(16, 3),
    "model.half": torch.arange(8, dtype=torch.bfloat16),
    "optimizer.step": torch.tensor(7),
}
DTYPES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.int64: "I64"}


def write_sharded(folder: Path, world_size: int) -> list[str]:
    """The whole, cut by rows over so many shards; what has no rows is rank 0's."""
    files = []
    for rank in range(world_size):
        parts, pieces = {}, []
        for name, tensor in WHOLE.items():
            cut = tensor.tensor_split(world_size)[rank] if tensor.dim() else tensor
            if cut.dim() == 0 and rank > 0:
                continue
            before = sum(len(t) for t in tensor.tensor_split(world_size)[:rank]) if rank else 0
            offsets = (before,) + (0,) * (cut.dim() - 1) if cut.dim() else ()
            parts[name] = cut.contiguous()
            pieces.append(Piece(name, DTYPES[cut.dtype], tuple(cut.shape), offsets))
        layout = lay_out(pieces, json.dumps({"rank": rank}))
        body = [bytes(parts[p.name].reshape(-1).view(torch.uint8).tolist()) for p in layout.pieces]
        file = f"{rank:05d}-a.safetensors"
        assert write_shard(folder, file, [layout.header, *body]).total_bytes == layout.total_bytes
        files.append(file)
    return files


def test_stock_safetensors_opens_a_shard(tmp_path: Path) -> None:
    (file,) = write_sharded(tmp_path, 1)
    found = load_file(tmp_path / file)
    assert found.keys() == WHOLE.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in WHOLE.items())
    with safe_open(tmp_path / file, framework="pt") as shard:
        assert json.loads(shard.metadata()["everstep"]) == {"rank": 0}


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("world_size", WORLD_SIZES)
def test_stock_dcp_puts_a_sharded_checkpoint_together(tmp_path: Path, world_size: int) -> None:
    write_sharded(tmp_path, world_size)
    found = {name: torch.zeros_like(tensor) for name, tensor in WHOLE.items()}
    load(found, storage_reader=HuggingFaceStorageReader(str(tmp_path)), no_dist=True)
    assert all(torch.equal(found[name], tensor) for name, tensor in WHOLE.items())
