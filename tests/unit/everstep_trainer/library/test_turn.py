"""What is kept until a step is completed."""

import logging
from typing import Any

import pytest
import torch
from everstep_trainer.library.errors import StateError
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.turn import TurnStart
from torch import nn
from torch.amp.grad_scaler import GradScaler


class Counter:
    """A small object of a script's own."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def parts() -> dict[str, Any]:
    model = nn.BatchNorm1d(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5),
        "counter": Counter(),
    }


def test_r22_what_a_forward_and_a_scheduler_moved_goes_back() -> None:
    made = parts()
    replica = Replica(made)
    start = TurnStart.of(replica)
    expected = torch.randn(2)
    made["model"](torch.randn(4, 3))
    made["optimizer"].step()
    made["scheduler"].step()
    made["counter"].count = 7
    start.restore(replica)
    assert torch.equal(made["model"].running_mean, torch.zeros(3))
    assert made["optimizer"].param_groups[0]["lr"] == 0.1
    assert (made["scheduler"].last_epoch, made["counter"].count) == (0, 0)
    assert torch.equal(torch.randn(2), expected)


def test_r22_a_scheduler_that_had_not_followed_its_optimizer_follows() -> None:
    made = parts()
    replica = Replica(made)
    start = TurnStart.of(replica)
    made["optimizer"].step()
    start.follow(replica, frozenset({"scheduler"}))
    assert made["optimizer"].param_groups[0]["lr"] == 0.05
    start.follow(replica, frozenset({"scheduler"}))
    assert made["optimizer"].param_groups[0]["lr"] == 0.05


def test_r22_a_scheduler_that_does_not_move_every_step_is_left_alone() -> None:
    made = parts()
    replica = Replica(made)
    before = TurnStart.of(replica)
    habit = TurnStart.of(replica).moved_since(before.others)
    before.follow(replica, habit)
    assert habit == frozenset()
    assert made["scheduler"].last_epoch == 0


def test_r22_what_nobody_knows_how_to_bring_forward_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    replica = Replica(parts())
    with caplog.at_level(logging.WARNING, logger="everstep"):
        TurnStart.of(replica).follow(replica, frozenset({"counter"}))
    assert "counter was not brought forward" in caplog.text


def test_r22_a_gradient_scaler_can_scale_the_same_step_again() -> None:
    made = parts()
    made["scaler"] = scaler = GradScaler("cpu", init_scale=8.0)
    replica = Replica(made)
    start = TurnStart.of(replica)
    for _ in range(2):
        loss = scaler.scale(made["model"](torch.randn(4, 3)).square().mean())
        torch.autograd.backward(loss)
        scaler.unscale_(made["optimizer"])
        start.restore(replica)
    scaler.unscale_(made["optimizer"])
    scaler.step(made["optimizer"])
    start.follow(replica, frozenset({"scaler"}))
    assert scaler.state_dict()["_growth_tracker"] == 1


def test_a_turn_that_gave_an_optimizer_one_more_group_cannot_go_back_and_says_so() -> None:
    made = parts()
    replica = Replica(made)
    start = TurnStart.of(replica)
    made["optimizer"].add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
    with pytest.raises(StateError, match="optimizer has 2 parameter groups, and had 1 before"):
        start.restore(replica)
