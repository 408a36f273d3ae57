"""When a checkpoint is complete, when it is void, and which is the latest."""

from everstep_checkpoint_indexer.decide import MAX_PENDING, gather, is_void, latest
from everstep_checkpoint_indexer.model import Gathering
from everstep_contract.facts.checkpoint import ShardPrepared
from everstep_contract.record import CheckpointRecord, GenerationStart, JobRecord
from support.checkpoints import shard
from support.jobs import JOB_UID, NOW, member, record


def gathered(*facts: ShardPrepared) -> list[CheckpointRecord]:
    gathering, complete = Gathering(), list[CheckpointRecord]()
    for fact in facts:
        gathering, found = gather(gathering, fact)
        complete += [found] if found else []
    return complete


def checkpoint(step: int, generation: int) -> CheckpointRecord:
    (found,) = gathered(
        shard(0, step=step, generation=generation), shard(1, step=step, generation=generation)
    )
    return found


def job(*starts: tuple[int, int]) -> JobRecord:
    """A job whose generations began at these steps; the last one is the current."""
    *history, (generation, start_step) = starts
    return record(
        generation,
        (member(0), member(1)),
        start_step=start_step,
        history=tuple(GenerationStart(generation=g, start_step=s) for g, s in history),
    )


def test_a_checkpoint_is_complete_with_its_last_shard_and_counts_its_bytes() -> None:
    (found,) = gathered(shard(1), shard(0))
    assert (found.checkpoint, found.step, found.total_bytes) == ("s100", 100, 20)
    assert (found.path, found.lineage) == ("/ckpt/s100", JOB_UID)
    assert found.committed_at > NOW


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


def test_r26_a_save_past_the_start_of_a_later_generation_is_void() -> None:
    assert is_void(checkpoint(150, 1), job((1, 0), (2, 100)))
    assert is_void(checkpoint(150, 1), job((1, 0), (2, 100), (3, 180)))


def test_r26_the_breakpoint_save_of_a_broken_generation_is_good() -> None:
    assert not is_void(checkpoint(150, 1), job((1, 0), (2, 150)))
    assert not is_void(checkpoint(150, 2), job((1, 0), (2, 100), (3, 180)))


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
