"""What is committed of complete attempts, and which folders nobody needs any more."""

from typing import Any

import pytest
from everstep_checkpoint.media import Key
from everstep_checkpoint_indexer.decide import (
    Sighting,
    abandoned,
    is_possible,
    manifest_of,
    starts_of,
)
from everstep_checkpoint_indexer.gathering import gather, ready
from everstep_checkpoint_indexer.model import Complete, Gathering, Policy
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.record import MAX_HISTORY, GenerationStart, JobRecord
from support.checkpoints import shard
from support.jobs import JOB_UID, NOW, member, record

LATER = 1000.0


def complete(*facts: ShardPrepared) -> Complete:
    gathering = Gathering()
    for fact in facts:
        gathering = gather(gathering, fact, 0.0)
    (found,) = ready(gathering, Policy(), LATER)
    return found


def job(*starts: tuple[int, int]) -> JobRecord:
    """A job whose generations began at these steps; the last one is the current."""
    history = tuple(GenerationStart(generation=g, start_step=s) for g, s in starts)
    return record(starts[-1][0], (member(0), member(1)), start_step=starts[-1][1], history=history)


def test_a_manifest_lists_exact_files_and_where_generations_began() -> None:
    manifest = manifest_of(complete(shard(1), shard(0)), job((1, 0), (2, 90)))
    assert (manifest.checkpoint, manifest.step, manifest.total_bytes) == ("g1-s100", 100, 20)
    assert [one.file for one in manifest.shards] == ["shard-0.safetensors", "shard-1.safetensors"]
    assert manifest.lineage == JOB_UID
    assert [(s.generation, s.start_step) for s in manifest.history] == [(1, 0), (2, 90)]
    assert manifest.committed_at > NOW


def test_a_manifest_tells_ranks_own_shards_from_the_state() -> None:
    ranks = [shard(rank, kind="rank", shards=4) for rank in (2, 0)]
    manifest = manifest_of(complete(*ranks, shard(0), shard(1)), None)
    assert manifest.world_size == 4
    assert [(one.kind, one.shard) for one in manifest.shards] == [
        ("state", 0),
        ("state", 1),
        ("rank", 0),
        ("rank", 2),
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"shard": 2}, {"path": "/ckpt/.."}, {"path": "/ckpt/a b"}, {"path": ""}, {"step": 99}],
)
def test_a_shard_that_no_checkpoint_can_be_made_of_is_impossible(wrong: dict[str, Any]) -> None:
    assert is_possible(shard(0))
    assert not is_possible(shard(0).model_copy(update=wrong))


def test_a_history_as_long_as_a_record_has_still_fits_a_manifest() -> None:
    starts = [(generation, generation) for generation in range(MAX_HISTORY)]
    lived_long = job(*starts).model_copy(update={"generation": 999, "start_step": 998})
    manifest = manifest_of(complete(shard(0), shard(1)), lived_long)
    assert len(manifest.history) == MAX_HISTORY
    assert manifest.history[-1] == GenerationStart(generation=999, start_step=998)


def test_the_starts_of_another_job_of_this_name_say_nothing() -> None:
    assert starts_of("another", job((1, 0), (2, 90))) == ()


def test_an_attempt_is_abandoned_only_once_it_has_stood_still_for_long() -> None:
    still, growing = Key("job/still"), Key("job/growing")
    seen, going = abandoned({}, {still: 5, growing: 5}, 0.0, 60.0)
    assert going == ()
    seen, going = abandoned(seen, {still: 5, growing: 6}, 60.0, 60.0)
    assert going == (still,)
    assert seen[growing] == Sighting(6, 60.0)
    assert abandoned(seen, {growing: 6}, 119.0, 60.0)[1] == ()
