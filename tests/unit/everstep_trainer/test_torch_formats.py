"""What stock torch takes over from a state that Everstep kept."""

import io
from typing import Any

import pytest
import torch
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.tree import pack, unpack
from everstep_trainer.torch_formats import stock_state
from torch import nn

KINDS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "SGD": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "SGD without state": (torch.optim.SGD, {"lr": 0.1}),
    "Adam": (torch.optim.Adam, {"amsgrad": True}),
    "AdamW": (torch.optim.AdamW, {"lr": torch.tensor(0.01)}),
    "Adagrad": (torch.optim.Adagrad, {}),
    "Adafactor": (torch.optim.Adafactor, {}),
    "RMSprop": (torch.optim.RMSprop, {"centered": True, "momentum": 0.5}),
    "NAdam": (torch.optim.NAdam, {}),
    "Rprop": (torch.optim.Rprop, {}),
}


def parts(kind: str, seed: int, groups: int) -> dict[str, Any]:
    """Where there is more than one group, their order is not the model's."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    parameters = list(model.parameters())
    split = [{"params": parameters[at::groups]} for at in reversed(range(groups))]
    cls, options = KINDS[kind]
    made: Any = cls
    optimizer = made(split, **options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


def train(made: dict[str, Any], steps: int) -> None:
    """One layer never gets a gradient, so its optimizer has nothing to remember of it."""
    for step in range(steps):
        torch.manual_seed(step)
        made["optimizer"].zero_grad()
        made["model"][0](torch.randn(5, 3)).square().mean().backward()
        if step % 2:
            made["model"][2](torch.randn(5, 4)).square().mean().backward()
        made["optimizer"].step()
        made["scheduler"].step()


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_stock_torch_goes_on_from_it_to_the_bit(kind: str, groups: int) -> None:
    ours, theirs = parts(kind, 1, groups), parts(kind, 2, groups)
    train(ours, 3)
    captured = unpack(pack(Replica(ours).capture(), "state").frozen())
    file = io.BytesIO()
    torch.save({name: stock_state(state) for name, state in captured.items()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    for name, thing in theirs.items():
        thing.load_state_dict(loaded[name])
    assert same(theirs, ours)
    train(ours, 3)
    train(theirs, 3)
    assert same(theirs, ours)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether both have the same state, whatever was stepped first."""
    packed = []
    for made in (one, other):
        state = {name: thing.state_dict() for name, thing in made.items()}
        state["optimizer"]["state"] = dict(sorted(state["optimizer"]["state"].items()))
        packed.append(pack(state, "state"))
    return packed[0].equals(packed[1])


@pytest.mark.parametrize("state", [{"weight": 1}, {"options": 1, "state": 2}, [1], 7, None])
def test_what_is_no_optimizers_state_is_left_as_it_is(state: object) -> None:
    assert stock_state(state) is state
