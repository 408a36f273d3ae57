"""When a checkpoint is complete, when it is void, and which is the latest."""

from typing import Any

import pytest
from everstep_checkpoint_indexer.decide import (
    MAX_PENDING,
    gather,
    is_possible,
    latest,
    manifest_of,
    record_of,
)
from everstep_checkpoint_indexer.model import Complete, Gathering
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.record import CheckpointRecord, GenerationStart, JobRecord
from support.checkpoints import shard
from support.jobs import JOB_UID, NOW, member, record


def gathered(*facts: ShardPrepared) -> list[Complete]:
    gathering, complete = Gathering(), list[Complete]()
    for fact in facts:
        gathering, found = gather(gathering, fact)
        complete += [found] if found else []
    return complete


def checkpoint(step: int, generation: int) -> CheckpointRecord:
    (found,) = gathered(
        shard(0, step=step, generation=generation), shard(1, step=step, generation=generation)
    )
    return record_of(manifest_of(found, None), "/ckpt")


def job(*starts: tuple[int, int]) -> JobRecord:
    """A job whose generations began at these steps; the last one is the current."""
    *history, (generation, start_step) = starts
    return record(
        generation,
        (member(0), member(1)),
        start_step=start_step,
        history=tuple(GenerationStart(generation=g, start_step=s) for g, s in history),
    )


def test_a_checkpoint_is_complete_with_its_last_shard_and_lists_exact_files() -> None:
    (found,) = gathered(shard(1), shard(0))
    manifest = manifest_of(found, job((1, 0), (2, 90)))
    assert (manifest.checkpoint, manifest.step, manifest.total_bytes) == ("s100", 100, 20)
    assert [one.file for one in manifest.shards] == ["shard-0.safetensors", "shard-1.safetensors"]
    assert manifest.lineage == JOB_UID
    assert [(s.generation, s.start_step) for s in manifest.history] == [(1, 0), (2, 90)]
    assert manifest.committed_at > NOW


@pytest.mark.parametrize(
    "wrong", [{"shard": 2}, {"path": "/ckpt/.."}, {"path": "/ckpt/a b"}, {"path": ""}]
)
def test_a_shard_that_no_checkpoint_can_be_made_of_is_impossible(wrong: dict[str, Any]) -> None:
    assert is_possible(shard(0))
    assert not is_possible(shard(0).model_copy(update=wrong))


def test_the_same_shard_twice_is_one_shard() -> None:
    assert gathered(shard(0), shard(0)) == []


def test_shards_of_different_steps_or_generations_never_make_one_checkpoint() -> None:
    assert gathered(shard(0), shard(1, step=200, checkpoint="s100")) == []
    assert gathered(shard(0), shard(1, generation=2)) == []


def test_what_was_abandoned_is_forgotten_in_the_end() -> None:
    gathering = Gathering()
    for step in range(MAX_PENDING + 5):
        gathering, _ = gather(gathering, shard(0, step=step))
    assert len(gathering.pending) == MAX_PENDING


def test_r26_the_latest_is_the_newest_that_no_rollback_took_back() -> None:
    saves = [checkpoint(100, 1), checkpoint(150, 1), checkpoint(120, 2)]
    rolled_back = job((1, 0), (2, 100))
    assert latest(saves, rolled_back) == saves[2]
    assert latest(saves, job((1, 0))) == saves[1]


def test_a_job_made_anew_does_not_restore_from_the_former_one_of_its_name() -> None:
    anew = job((1, 0)).model_copy(update={"job_uid": "another"})
    assert latest([checkpoint(100, 1)], anew) is None


def test_without_the_jobs_record_the_index_still_answers() -> None:
    saves = [checkpoint(100, 1), checkpoint(150, 1)]
    assert latest(saves, None) == saves[1]
