"""`everstep checkpoints` on a folder of real checkpoints."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from everstep_bus.interface import Bus
from everstep_bus.nats.credentials import role_seed_path
from everstep_checkpoint.layout import Piece, lay_out
from everstep_checkpoint.storage import MANIFEST, Storage
from everstep_contract.identity import JobKey
from everstep_contract.manifest import Manifest
from everstep_contract.record import GenerationStart
from support.indexing import indexer, keeping, verified, written
from support.jobs import JOB, NOW
from support.nats_world import NatsWorld
from support.places import attempt_of, folder_of, write_shard
from support.polling import eventually

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
        attempt = attempt_of(storage, generation, step)
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


def test_ec14_what_is_no_checkpoint_is_listed_with_the_reason(root: Path) -> None:
    storage = Storage(root)
    write_shard(attempt_of(storage, 2, 300), "0-a.safetensors", [LAYOUT.header])
    (shard,) = root.glob("*/g1-s10-*/*.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1])
    everstep("verify", "--mark", "--root", str(root))
    listed = everstep("list", "--root", str(root))
    assert f"{attempt_of(storage, 2, 300)}: not committed" in listed.stderr
    size = LAYOUT.total_bytes
    assert f"damaged: {shard}: {size - 1} bytes, {size} were written" in listed.stderr
    assert "g2-s12" in listed.stdout


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


def test_what_a_verification_found_is_marked_where_that_is_wished(root: Path) -> None:
    (shard,) = root.glob("*/g1-s10-*/*.safetensors")
    shard.write_bytes(b"short")
    everstep("verify", "--root", str(root))
    assert not list(root.glob("*/*/marks.json"))
    everstep("verify", "--mark", "--root", str(root))
    listed = json.loads(everstep("list", "--root", str(root), "--json").stdout)
    assert [(one["checkpoint"], one["standing"]) for one in listed] == [
        ("g2-s12", "newest"),
        ("g1-s10", "damaged"),
        ("g1-s15", "void"),
    ]
    assert listed[0]["verified_at"] is not None


def test_without_a_bus_a_pin_and_a_pruning_are_done_in_the_folder(root: Path) -> None:
    everstep("verify", "--mark", "--root", str(root))
    dry = everstep("prune", "--dry-run", "--root", str(root)).stdout
    assert "would go: g1-s15" in dry
    assert everstep("pin", "g1-s15", "--root", str(root)).stdout == "g1-s15: pinned\n"
    assert everstep("prune", "--root", str(root)).stdout == "nothing to delete\n"
    everstep("unpin", "g1-s15", "--root", str(root))
    deleted = json.loads(everstep("prune", "--root", str(root), "--json").stdout)
    assert [one["checkpoint"] for one in deleted] == ["g1-s15"]
    assert {one.step for one in Storage(root).manifests()[0]} == {10, 12}


def test_a_name_that_two_jobs_have_is_told_apart_by_the_job(root: Path) -> None:
    storage = Storage(root)
    first = storage.manifests()[0][0]
    other = first.model_copy(update={"job": JobKey(namespace="team", name="other")})
    shutil.copytree(folder_of(storage, first), folder_of(storage, other))
    (folder_of(storage, other) / MANIFEST).write_text(other.model_dump_json())
    refused = everstep("pin", first.checkpoint, "--root", str(root))
    assert refused.returncode == 1
    assert "several have one: " in refused.stderr
    chosen = everstep("pin", first.checkpoint, "--job", "team/other", "--root", str(root))
    assert chosen.returncode == 0
    assert [one.manifest.job.name for one in storage.listed()[0] if one.marks.pinned] == ["other"]


def test_whoever_names_neither_a_bus_nor_a_folder_is_told_to(root: Path) -> None:
    done = everstep("prune")
    assert (done.returncode, "--nats-url" in done.stderr) == (2, True)


async def test_with_a_bus_the_indexer_pins_and_prunes(tmp_path: Path) -> None:
    (root := tmp_path / "root").mkdir()
    world, storage = NatsWorld(tmp_path), Storage(root)
    await world.start()
    seed = str(role_seed_path(world.credentials, "operator"))
    access = ("--nats-url", world.server.url, "--credentials", seed)

    async def ask(*arguments: str) -> str:
        done = await asyncio.to_thread(everstep, *arguments, *access)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    try:
        agent = await world.agent(JOB, "worker-0-1")
        bus = await world.service("checkpoint_indexer")
        async with indexer(bus, storage, keeping(max_bytes=1000)):
            for step in (100, 200, 300):
                await agent.publish(written(storage, step=step))
            await eventually(lambda: _all_verified(bus))
            assert await ask("pin", "g1-s100") == "g1-s100: pinned\n"
            assert await ask("prune") == "nothing to delete\n"
            assert await ask("unpin", "g1-s100") == "g1-s100: no longer pinned\n"
    finally:
        await world.close()


async def _all_verified(bus: Bus) -> bool:
    return len(await verified(bus)) == 3


def test_a_name_that_is_none_and_a_folder_that_is_none_are_told(root: Path) -> None:
    assert "no checkpoint 'g9-s9' below" in everstep("verify", "g9-s9", "--root", str(root)).stderr
    told = everstep("list", "--root", "/nonexistent").stderr
    assert "/nonexistent: cannot look there: No such file" in told
