"""What a rank has for itself."""

import pytest
import torch
from everstep_trainer.library.own_shard import OwnShard, configuration
from everstep_trainer.library.rng import capture_rng
from everstep_trainer.library.transfer import Place

CPU = torch.device("cpu")


def own() -> OwnShard:
    return OwnShard(1, 4, 120, configuration(), ("torch",), capture_rng())


def test_it_comes_back_from_text_as_it_was() -> None:
    before = own()
    after = OwnShard.from_json(before.to_json())
    assert (after.rank, after.world_size, after.step) == (1, 4, 120)
    assert after.configuration == before.configuration
    assert torch.equal(after.rng["torch"], before.rng["torch"])
    assert after.rng["python"] == before.rng["python"]


def test_ec55_another_rank_gets_only_what_all_ranks_shared() -> None:
    assert own().rng_for(Place(1, 4, 0, CPU)).keys() >= {"torch", "python"}
    assert own().rng_for(Place(0, 4, 0, CPU)).keys() == {"torch"}
    assert own().rng_for(Place(1, 2, 0, CPU)).keys() == {"torch"}


def test_other_arguments_are_another_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--lr", "1"])
    first = configuration()
    monkeypatch.setattr("sys.argv", ["elsewhere/train.py", "--lr", "1"])
    assert configuration() == first
    monkeypatch.setattr("sys.argv", ["train.py", "--lr", "2"])
    assert configuration() != first
