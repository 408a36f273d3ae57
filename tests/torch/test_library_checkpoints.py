"""A job whose every process died goes on from what lies on disk, all ranks from the same step."""

import random
import shutil
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from everstep_contract.manifest import Manifest, checkpoint_name
from everstep_contract.record import GenerationStart
from everstep_trainer.library.recovery import TOLD_AT_ONCE
from support.places import attempt_of, folder_of
from support.ranks import RankHouse
from support.savers import Saver
from support.trainees import LINEAGE, TrainingJob

TRAIN = "support.trainee_programs:train"
TOTAL = 12


def undisturbed(house: RankHouse, workers: int) -> tuple[set[str], list[str]]:
    """The digest of the state at the end, and rank 0's losses."""
    job = TrainingJob(house, TRAIN, workers=workers, total=TOTAL)
    numbers = list(range(workers))
    job.order(numbers)
    digests = {said["digest"] for said in job.until("ended", numbers)}
    return digests, losses(job, 0)


def losses(job: TrainingJob, number: int) -> list[str]:
    """What a worker's steps gave, to the bit, from step 1 of this life on."""
    return [said["loss"] for said in job[number].rank.events if said["event"] == "step"]


class Wrecked:
    """A job with checkpoints of some steps, all of whose processes are dead."""

    def __init__(self, house: RankHouse, root: Path, workers: int, steps: list[int]) -> None:
        self.root = root
        settings: dict[str, Any] = {"total": TOTAL, "root": str(root), "checkpoint_every": 3}
        self.job = TrainingJob(house, TRAIN, workers=0, **settings)
        numbers = list(range(workers))
        for number in numbers:
            self.job.start(number, pause_at=steps[-1] + 1)
        saver = Saver(self.job, root)
        self.job.order(numbers)
        self.manifests = [saver.save(numbers, step) for step in steps]
        self.storage = saver.storage
        for number in numbers:
            self.job[number].rank.signal(SIGKILL)
        self.job.slots.clear()

    def file(self, manifest: Manifest, shard: int = 0) -> Path:
        return folder_of(self.storage, manifest) / manifest.shards[shard].file

    def commit_copy(self, manifest: Manifest, step: int) -> Manifest:
        """The same files, committed as the checkpoint of another step."""
        copied = manifest.model_copy(
            update={"step": step, "checkpoint": checkpoint_name(manifest.generation, step)}
        )
        attempt = attempt_of(self.storage, manifest.generation, step, job=manifest.job)
        attempt.mkdir()
        for shard in manifest.shards:
            shutil.copy(folder_of(self.storage, manifest) / shard.file, attempt)
        self.storage.commit(copied)
        return copied

    def start_anew(self, workers: int, **order: object) -> list[int]:
        """New processes that know nothing, in a new generation."""
        numbers = list(range(workers))
        for number in numbers:
            self.job.start(number, seed=99)
        self.job.order(numbers, **order)
        return numbers

    def formed(self, numbers: list[int]) -> tuple[str, str, int]:
        """Where all of them go on from."""
        told = self.job.until_told("formed", numbers, generation=self.job.generation)
        (where,) = {(one.source, one.checkpoint, one.agreed_step) for one in told}
        return where


@pytest.mark.parametrize("workers", [1, 2])
def test_a_whole_job_that_died_resumes_to_the_bit(
    house: RankHouse, tmp_path: Path, workers: int
) -> None:
    wrecked = Wrecked(house, tmp_path, workers, [3, 6])
    numbers = wrecked.start_anew(workers)
    assert wrecked.formed(numbers) == ("disk", "g1-s6", 6)
    digests = {said["digest"] for said in wrecked.job.until("ended", numbers)}
    expected_digests, expected_losses = undisturbed(house, workers)
    assert digests == expected_digests
    assert losses(wrecked.job, 0) == expected_losses[6:]


@pytest.mark.parametrize("workers", [1, 3])
def test_another_number_of_workers_goes_on_from_the_same_step(
    house: RankHouse, tmp_path: Path, workers: int
) -> None:
    wrecked = Wrecked(house, tmp_path, 2, [3])
    numbers = wrecked.start_anew(workers)
    assert wrecked.formed(numbers) == ("disk", "g1-s3", 3)
    digests = [said["digest"] for said in wrecked.job.until("agreed", numbers)]
    assert len(set(digests)) == 1
    wrecked.job.until("step", numbers, step=4)


def flip_a_bit(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    at = random.randrange(len(raw))
    raw[at] ^= 1 << random.randrange(8)
    path.write_bytes(raw)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "shard"),
    [
        (flip_a_bit, 0),
        (flip_a_bit, 2),
        pytest.param(truncate, 0, marks=pytest.mark.slow),
        (truncate, 2),
        (empty, 0),
        pytest.param(empty, 2, marks=pytest.mark.slow),
        pytest.param(Path.unlink, 0, marks=pytest.mark.slow),
        (Path.unlink, 2),
        (make_unreadable, 0),
        pytest.param(make_unreadable, 2, marks=pytest.mark.slow),
    ],
)
def test_ec14_a_damaged_checkpoint_sends_all_ranks_to_the_one_before(
    house: RankHouse, tmp_path: Path, damage: object, shard: int
) -> None:
    assert callable(damage)
    wrecked = Wrecked(house, tmp_path, 2, [3, 6])
    damage(wrecked.file(wrecked.manifests[1], shard))
    numbers = wrecked.start_anew(2)
    assert wrecked.formed(numbers) == ("disk", "g1-s3", 3)
    told = [one for number in numbers for one in wrecked.job[number].messages("found_damage")]
    assert {one.checkpoint for one in told} == {"g1-s6"}
    assert wrecked.manifests[1].shards[shard].file in told[0].detail


@pytest.mark.parametrize("damaged", [2 * TOLD_AT_ONCE, 2 * TOLD_AT_ONCE + 3])
def test_ec14_however_many_checkpoints_are_damaged_the_good_one_before_them_is_found(
    house: RankHouse, tmp_path: Path, damaged: int
) -> None:
    wrecked = Wrecked(house, tmp_path, 2, [3])
    for step in range(4, 4 + damaged):
        truncate(wrecked.file(wrecked.commit_copy(wrecked.manifests[0], step)))
    numbers = wrecked.start_anew(2)
    assert wrecked.formed(numbers) == ("disk", "g1-s3", 3)
    told = wrecked.job[0].messages("found_damage")
    tried = [one.checkpoint for one in told]
    assert tried == [f"g1-s{step}" for step in range(3 + damaged, 3, -1)]


def test_if_no_checkpoint_is_whole_nothing_begins_anew_in_silence(
    house: RankHouse, tmp_path: Path
) -> None:
    wrecked = Wrecked(house, tmp_path, 1, [3])
    truncate(wrecked.file(wrecked.manifests[0]))
    wrecked.start_anew(1)
    crashed = wrecked.job[0].rank.until("crashed")
    assert "none of the checkpoints g1-s3 can be loaded" in crashed["error"]


def test_r26_a_checkpoint_of_a_future_that_was_given_up_is_not_loaded(
    house: RankHouse, tmp_path: Path
) -> None:
    wrecked = Wrecked(house, tmp_path, 1, [3, 6])
    wrecked.job.generation = 2
    went_back = GenerationStart(generation=2, start_step=4)
    numbers = wrecked.start_anew(1, history=(went_back,))
    assert wrecked.formed(numbers) == ("disk", "g1-s3", 3)


def test_memory_is_taken_before_an_older_checkpoint(house: RankHouse, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "root": str(tmp_path),
        "checkpoint_every": 3,
        "snapshot_every": 5,
        "pause_at": 5,
    }
    job = TrainingJob(house, TRAIN, workers=1, total=TOTAL, **settings)
    job.order([0])
    Saver(job, tmp_path).save([0], 3)
    job[0].rank.until("paused", step=5)
    job[0].rank.signal(SIGKILL)
    job.start(0, seed=99, pause_at=None)
    job.order([0])
    formed = job[0].until_told("formed", generation=2)
    assert (formed.source, formed.agreed_step) == ("memory", 5)


def test_the_end_of_training_is_saved(house: RankHouse, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"root": str(tmp_path), "checkpoint_every": 100}
    job = TrainingJob(house, TRAIN, workers=1, total=4, **settings)
    job.order([0])
    saved = Saver(job, tmp_path).save([0], 4)
    job[0].rank.until("ended")
    assert saved.checkpoint == "g1-s4"


def test_if_nobody_can_look_for_checkpoints_nothing_begins_anew_in_silence(
    house: RankHouse, tmp_path: Path
) -> None:
    wrecked = Wrecked(house, tmp_path, 1, [3])
    folder = wrecked.file(wrecked.manifests[0]).parent.parent
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("no folder")
    wrecked.start_anew(1)
    assert "none of the checkpoints" in wrecked.job[0].rank.until("crashed")["error"]


def test_a_job_made_anew_goes_on_from_its_earlier_life_only_if_told_to(
    house: RankHouse, tmp_path: Path
) -> None:
    wrecked = Wrecked(house, tmp_path, 1, [3, 6])
    numbers = wrecked.start_anew(1, job_uid="uid-2")
    assert wrecked.formed(numbers) == ("fresh", "", 0)
    wrecked.job[0].rank.signal(SIGKILL)
    wrecked.job.slots.clear()
    wrecked.job.start(0, seed=99, resume_from=LINEAGE)
    wrecked.job.order(numbers, job_uid="uid-3")
    assert wrecked.formed(numbers) == ("disk", "g1-s6", 6)
    wrecked.job[0].rank.until("step", step=7)


def test_a_rank_whose_own_mount_is_bad_gets_its_random_states_from_another(
    house: RankHouse, tmp_path: Path
) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    wrecked = Wrecked(house, good, 2, [3, 6])
    shutil.copytree(good, bad)
    for shard in range(len(wrecked.manifests[1].shards)):
        truncate(bad / wrecked.file(wrecked.manifests[1], shard).relative_to(good))
    wrecked.job.start(0, seed=99)
    wrecked.job.start(1, seed=99, root=str(bad))
    wrecked.job.order([0, 1])
    assert wrecked.formed([0, 1]) == ("disk", "g1-s6", 6)
    ended = {said["digest"] for said in wrecked.job.until("ended", [0, 1])}
    assert ended == undisturbed(house, 2)[0]
    assert wrecked.job[1].messages("found_damage") == []
