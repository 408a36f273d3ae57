"""A job starts from what somebody brought in, all ranks alike."""

import os
import shutil
from pathlib import Path

import pytest
import torch
from everstep_checkpoint.storage import Storage
from everstep_trainer.importing import Wanted, import_checkpoint
from safetensors.torch import save_file
from support.jobs import NOW
from support.ranks import RankHouse
from support.trainee_programs import digest, make_model
from support.trainees import JOB, LINEAGE, TrainingJob
from torch import nn

TRAIN = "support.trainee_programs:train"
STEP = 4


def bring_in(root: Path, tracked_as: str) -> nn.Module:
    """A model from elsewhere, imported as this object of the job."""
    root.mkdir()
    torch.manual_seed(5)
    model = make_model()
    source = root.parent / "model.safetensors"
    save_file(model.state_dict(), source)
    wanted = Wanted(JOB, LINEAGE, STEP, tracked_as)
    import_checkpoint(Storage(root), source, wanted, NOW)
    return model


def unreadable(root: Path) -> Path:
    """The same as a bad mount has it: files are there, and cut off."""
    copied = root.with_name("bad")
    shutil.copytree(root, copied)
    for file in copied.rglob("*.safetensors"):
        os.truncate(file, file.stat().st_size // 2)
    return copied


@pytest.mark.parametrize("reader", [0, 1])
def test_a_model_from_elsewhere_starts_a_job_that_tracks_more(
    house: RankHouse, tmp_path: Path, reader: int
) -> None:
    """What it lacks all get from the rank that gives them the model, whoever else has read it."""
    model = bring_in(tmp_path / "good", "model")
    job = TrainingJob(house, TRAIN, workers=0, total=6, checkpoint_every=100)
    rates = [0.01, 0.02, 0.03]
    bad = unreadable(tmp_path / "good")
    for number, rate in enumerate(rates):
        root = tmp_path / "good" if number >= reader else bad
        job.start(number, seed=number, rate=rate, root=str(root))
    job.order([0, 1, 2])
    told = job.until_told("formed", [0, 1, 2])
    where = {(one.source, one.checkpoint, one.agreed_step) for one in told}
    assert where == {("disk", f"g0-s{STEP}", STEP)}
    agreed = {said["digest"] for said in job.until("agreed", [0, 1, 2])}
    assert agreed == {digest(model, torch.optim.AdamW(model.parameters(), lr=rates[reader]))}
    job.until("ended", [0, 1, 2], step=6)


def test_a_model_from_elsewhere_that_is_not_tracked_is_refused_by_its_name(
    house: RankHouse, tmp_path: Path
) -> None:
    bring_in(tmp_path / "root", "critic")
    root = str(tmp_path / "root")
    job = TrainingJob(house, TRAIN, workers=1, root=root, checkpoint_every=100)
    job.order([0])
    assert "than are tracked, such as critic" in job[0].rank.until("crashed")["error"]
