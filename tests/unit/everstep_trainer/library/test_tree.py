"""State as JSON and tensors."""

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from everstep_trainer.library.errors import UncarriableStateError
from everstep_trainer.library.tree import pack, unpack
from hypothesis import given
from hypothesis import strategies as st
from torch.optim import lr_scheduler

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner)
    ),
)


def scheduler(name: str, optimizer: torch.optim.Optimizer) -> Any:
    options: dict[str, dict[str, Any]] = {
        "StepLR": {"step_size": 2},
        "MultiStepLR": {"milestones": [1, 4]},
        "OneCycleLR": {"max_lr": 0.1, "total_steps": 20},
        "CyclicLR": {"base_lr": 0.01, "max_lr": 0.1},
        "CosineAnnealingWarmRestarts": {"T_0": 3},
        "LambdaLR": {"lr_lambda": lambda step: 0.9**step},
        "ReduceLROnPlateau": {},
    }
    return getattr(lr_scheduler, name)(optimizer, **options[name])


@given(trees)
def test_plain_data_comes_back_as_it_was(value: Any) -> None:
    back = unpack(pack(value, "state"))
    assert back == value
    assert type(back) is type(value)


def test_numbers_come_back_to_the_bit() -> None:
    value = [0.1 + 0.2, math.inf, -0.0, 1e-320]
    assert [x.hex() for x in unpack(pack(value, "state"))] == [x.hex() for x in value]


def test_tensors_are_kept_beside_the_text() -> None:
    value = {"a": [torch.arange(3), Counter({4: 2})]}
    back = unpack(pack(value, "state"))
    assert torch.equal(back["a"][0], torch.arange(3))
    assert isinstance(back["a"][1], Counter)


def test_a_frozen_copy_does_not_follow_its_tensors() -> None:
    live = torch.zeros(2)
    kept = pack([live], "state").frozen()
    live += 1
    assert not kept.equals(pack([live], "state"))
    assert torch.equal(unpack(kept)[0], torch.zeros(2))


@pytest.mark.parametrize("value", [object(), b"bytes", {1, 2}, torch.eye(2).to_sparse()])
def test_what_cannot_be_carried_is_named_with_its_place(value: object) -> None:
    with pytest.raises(UncarriableStateError, match=r"scheduler\['a'\]\[1\] is a "):
        pack({"a": [0, value]}, "scheduler")


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: torch.eye(2).to_sparse(), "sparse_coo"),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "quantized"),
        (lambda: torch.ones(2, device="meta"), "meta"),
    ],
)
def test_a_tensor_that_is_more_or_less_than_its_elements_is_named_by_its_kind(
    make: Callable[[], torch.Tensor], kind: str
) -> None:
    """Copied as bytes, a quantized one would lose its scale, and crash the process before."""
    with pytest.raises(UncarriableStateError, match=rf"model\['w'\] is a {kind} tensor"):
        pack({"w": make()}, "model")


@pytest.mark.parametrize(
    "name",
    [
        "StepLR",
        "MultiStepLR",
        "OneCycleLR",
        "CyclicLR",
        "CosineAnnealingWarmRestarts",
        "LambdaLR",
        "ReduceLROnPlateau",
    ],
)
def test_torchs_schedulers_go_on_where_another_left_off(name: str) -> None:
    rates = []
    optimizers = [torch.optim.SGD([torch.zeros(1)], lr=0.05, momentum=0.9) for _ in range(2)]
    first, second = (scheduler(name, optimizer) for optimizer in optimizers)
    arguments = (1.0,) if name == "ReduceLROnPlateau" else ()
    for _ in range(5):
        optimizers[0].step()
        first.step(*arguments)
    second.load_state_dict(unpack(pack(first.state_dict(), "scheduler")))
    for group, other in zip(optimizers[1].param_groups, optimizers[0].param_groups, strict=True):
        group["lr"] = other["lr"]
    for optimizer, each in zip(optimizers, (first, second), strict=True):
        optimizer.step()
        each.step(*arguments)
        rates.append([group["lr"] for group in optimizer.param_groups])
    assert rates[0] == rates[1]
