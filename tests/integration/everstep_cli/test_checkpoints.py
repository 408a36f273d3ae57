"""`everstep checkpoints` on a folder of real checkpoints."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from everstep_checkpoint.layout import Piece, lay_out
from everstep_checkpoint.storage import Storage, write_shard
from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart
from support.jobs import JOB, NOW

LAYOUT = lay_out([Piece("model.weight", "F32", (2, 3), offsets=(4, 0))], state="{}")
STARTS = (GenerationStart(generation=1, start_step=0), GenerationStart(generation=2, start_step=10))


def everstep(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "everstep_cli", "checkpoints", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Three checkpoints: of generation 1 at steps 10 and 15, of generation 2 at step 12."""
    storage = Storage(tmp_path)
    for generation, step in ((1, 10), (1, 15), (2, 12)):
        attempt = storage.attempt(JOB, generation, step)
        shard = write_shard(attempt, "0-a.safetensors", [LAYOUT.header, b"x" * 24])
        storage.commit(
            Manifest(
                job=JOB,
                checkpoint=f"g{generation}-s{step}",
                lineage="uid-1",
                generation=generation,
                step=step,
                shards=(shard,),
                history=STARTS[:generation],
                committed_at=NOW,
            )
        )
    return tmp_path


def test_the_newest_comes_first_and_an_abandoned_future_is_void(root: Path) -> None:
    listed = json.loads(everstep("list", "--root", str(root), "--json").stdout)
    assert [(one["checkpoint"], one["standing"]) for one in listed] == [
        ("g2-s12", "newest"),
        ("g1-s10", "good"),
        ("g1-s15", "void"),
    ]
    table = everstep("list", "--root", str(root)).stdout
    assert "g1-s15" in table
    assert "void" in table


def test_whole_checkpoints_are_said_to_be_whole(root: Path) -> None:
    done = everstep("verify", "--root", str(root))
    assert done.returncode == 0
    assert done.stdout.count("whole, 1 shards") == 3


def test_a_damaged_checkpoint_is_named_with_its_file_and_status_1(root: Path) -> None:
    (shard,) = root.glob("*/g1-s10-*/*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1] + b"y")
    done = everstep("verify", "g1-s10", "--root", str(root))
    assert done.returncode == 1
    assert f"DAMAGED {shard}: its hash is" in done.stdout


def test_what_a_checkpoint_holds_is_shown_by_the_headers_of_its_shards(root: Path) -> None:
    document = json.loads(everstep("show", "g1-s10", "--root", str(root), "--json").stdout)
    (piece,) = document["pieces"]["0-a.safetensors"]
    assert (piece["name"], piece["shape"], piece["offsets"]) == ("model.weight", [2, 3], [4, 0])
    assert "model.weight" in everstep("show", "g1-s10", "--root", str(root)).stdout
    (shard,) = root.glob("*/g1-s10-*/*.safetensors")
    shard.write_bytes(b"short")
    assert "damaged: " in everstep("show", "g1-s10", "--root", str(root)).stderr


def test_a_name_that_is_none_and_a_folder_that_is_none_are_told(root: Path) -> None:
    assert "no checkpoint 'g9-s9' below" in everstep("verify", "g9-s9", "--root", str(root)).stderr
    assert "does not exist" in everstep("list", "--root", "/nonexistent").stderr
