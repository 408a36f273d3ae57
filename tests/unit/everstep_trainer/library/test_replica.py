"""The tracked objects, taken together."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from everstep_trainer.library.errors import StateError
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.tree import pack, unpack
from torch import nn


def parts(seed: int, width: int = 3) -> dict[str, Any]:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    return {"model": model, "optimizer": optimizer, "scheduler": scheduler}


def step(made: dict[str, Any]) -> None:
    made["model"](torch.randn(4, 3)).square().mean().backward()
    made["optimizer"].step()
    made["scheduler"].step()


def text(replica: Replica) -> tuple[str, list[torch.Tensor]]:
    packed = pack(replica.capture(), "state")
    return packed.text, list(packed.tensors.values())


def test_a_newcomer_that_never_stepped_takes_over_the_optimizers_state_too() -> None:
    old, new = parts(1), parts(2)
    step(old)
    source, target = Replica(old), Replica(new)
    target.restore(unpack(pack(source.capture(), "state")))
    assert text(target)[0] == text(source)[0]
    assert all(map(torch.equal, text(target)[1], text(source)[1]))
    assert new["optimizer"].param_groups[0]["lr"] == 0.05


def test_what_was_restored_is_not_shared_with_what_it_came_from() -> None:
    old, new = parts(1), parts(2)
    step(old)
    state = Replica(old).capture()
    Replica(new).restore(state)
    before = pack(state, "state").frozen()
    step(new)
    assert before.equals(pack(state, "state"))


def test_tensors_have_the_names_that_people_know() -> None:
    made = parts(1)
    step(made)
    names = pack(Replica(made).capture(), "state").tensors.keys()
    assert {"model.0.weight", "model.1.running_mean"} < names
    assert {"optimizer.state.model.0.weight.exp_avg", "optimizer.state.model.1.bias.step"} < names


def test_ec29_a_state_that_lacks_an_object_is_refused_by_its_name() -> None:
    state = Replica(parts(1)).capture()
    del state["optimizer"]
    with pytest.raises(StateError, match="other objects than are tracked, such as optimizer"):
        Replica(parts(2)).restore(state)


def test_of_what_was_brought_in_some_objects_are_enough_and_the_others_stay() -> None:
    old, new = parts(1), parts(2)
    step(old)
    new["scheduler"].last_epoch = 5
    state = {"model": Replica(old).capture()["model"]}
    assert Replica(new).restore(state, others_stay=True) == {"optimizer", "scheduler"}
    assert all(map(torch.equal, new["model"].parameters(), old["model"].parameters()))
    assert (len(new["optimizer"].state), new["scheduler"].last_epoch) == (0, 5)
    assert Replica(new).restore(Replica(old).capture(), others_stay=True) == set()


def test_ec29_what_was_brought_in_of_an_object_that_is_not_tracked_is_refused_by_its_name() -> None:
    state = {**Replica(parts(1)).capture(), "critic": {}}
    with pytest.raises(StateError, match="other objects than are tracked, such as critic"):
        Replica(parts(2)).restore(state, others_stay=True)


def test_replicas_of_other_shapes_have_another_structure() -> None:
    same = Replica(parts(2)).structure()
    assert Replica(parts(1)).structure() == same
    assert Replica(parts(1, width=4)).structure() != same


def test_a_state_of_another_shape_is_refused_by_name() -> None:
    state = Replica(parts(1)).capture()
    with pytest.raises(StateError, match=r"model\.0\.weight: shape \(4, 4\) was another before"):
        Replica(parts(1, width=4)).restore(state)


def test_a_state_of_other_names_is_refused() -> None:
    state = Replica({"model": nn.Linear(3, 3)}).capture()
    with pytest.raises(StateError, match="model has other parameters or buffers"):
        Replica({"model": nn.Linear(3, 3, bias=False)}).restore(state)


def stepping(kind: type[torch.optim.Optimizer], groups: int, **options: Any) -> dict[str, Any]:
    """A model and its optimizer, whose parameters are in so many groups."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    parameters = list(model.parameters())
    split = [{"params": parameters[at::groups]} for at in range(groups)]
    return {"model": model, "optimizer": kind(split, **options)}


def of_one_group(state: dict[str, Any]) -> None:
    state["optimizer"]["options"] = state["optimizer"]["options"][:1]


def of_sgd(state: dict[str, Any]) -> None:
    sgd = stepping(torch.optim.SGD, 2, lr=0.1)
    state["optimizer"]["options"] = Replica(sgd).capture()["optimizer"]["options"]


def of_no_optimizer(state: dict[str, Any]) -> None:
    state["optimizer"] = {"0.exp_avg": torch.zeros(3)}


def of_an_unknown_parameter(state: dict[str, Any]) -> None:
    state["optimizer"]["state"]["model.7.weight"] = {"step": 1}


def of_a_parameter_without_fields(state: dict[str, Any]) -> None:
    state["optimizer"]["state"]["model.0.weight"] = 7


def of_a_list_of_tensors(state: dict[str, Any]) -> None:
    state["model"] = list(state["model"].values())


def of_a_number_for_a_tensor(state: dict[str, Any]) -> None:
    state["model"]["0.bias"] = 1.0


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (of_one_group, "optimizer has 2 parameter groups, and had 1 before"),
        (of_sgd, "another kind of optimizer before: its group 0 had dampening, momentum, nesterov"),
        (of_no_optimizer, "optimizer: the state is not that of an optimizer"),
        (of_an_unknown_parameter, r"optimizer has no parameter 'model\.7\.weight'"),
        (of_a_parameter_without_fields, r"optimizer: what it had for 'model\.0\.weight' was a int"),
        (of_a_list_of_tensors, "model: the state is a list, not that of a model"),
        (of_a_number_for_a_tensor, r"model\.0\.bias was a float before, not a tensor"),
    ],
)
def test_ec29_a_state_of_another_structure_is_refused_by_what_differs_and_changes_nothing(
    change: Callable[[dict[str, Any]], None], what: str
) -> None:
    state = Replica(stepping(torch.optim.AdamW, 2)).capture()
    change(state)
    target = Replica(stepping(torch.optim.AdamW, 2))
    before = pack(target.capture(), "state").frozen()
    with pytest.raises(StateError, match=what):
        target.restore(state)
    assert before.equals(pack(target.capture(), "state"))


def test_options_that_a_scheduler_or_another_torch_has_added_are_no_other_optimizer() -> None:
    state = Replica(stepping(torch.optim.AdamW, 2, lr=0.5)).capture()
    for group in state["optimizer"]["options"]:
        group["initial_lr"] = 0.5
    target = stepping(torch.optim.AdamW, 2)
    Replica(target).restore(state)
    assert [group["lr"] for group in target["optimizer"].param_groups] == [0.5, 0.5]
    del state["optimizer"]["options"][0]["amsgrad"]
    del state["optimizer"]["options"][0]["initial_lr"]
    Replica(target).restore(state)


def test_what_has_no_state_cannot_be_tracked() -> None:
    with pytest.raises(StateError, match=r"sampler \(object\) has no state_dict"):
        Replica({"sampler": object()})


def test_a_model_with_state_that_is_no_tensor_is_refused_by_name() -> None:
    class Odd(nn.Module):
        def get_extra_state(self) -> object:
            return {"a": 1}

    with pytest.raises(StateError, match=r"model\._extra_state is a builtins\.dict"):
        Replica({"model": Odd()})


def test_a_model_with_a_tensor_that_cannot_be_copied_is_refused_when_it_is_tracked() -> None:
    model = nn.Linear(3, 3)
    model.register_buffer("mask", torch.eye(3).to_sparse())
    with pytest.raises(StateError, match=r"model\['mask'\] is a sparse_coo tensor"):
        Replica({"model": model})


def test_an_optimizer_with_an_option_that_cannot_be_copied_is_refused_when_it_is_tracked() -> None:
    made = parts(1)
    made["optimizer"].param_groups[0]["decays"] = lambda name: "bias" not in name
    with pytest.raises(StateError, match=r"optimizer\['options'\]\[0\]\['decays'\] is a "):
        Replica(made)


def test_an_optimizer_without_its_model_is_refused() -> None:
    with pytest.raises(StateError, match="optimizer steps 4 parameters of no tracked module"):
        Replica({"optimizer": parts(1)["optimizer"]})


def test_only_buffers_that_belong_to_the_state_are_kept_for_each_step() -> None:
    model = nn.BatchNorm1d(3)
    model.register_buffer("cache", torch.zeros(1000), persistent=False)
    assert len(Replica({"model": model}).buffers()) == 3


def test_a_compiled_model_is_tracked_as_the_model_it_wraps() -> None:
    class OptimizedModule(nn.Module):  # as torch.compile makes one, which takes seconds to import
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self._orig_mod = inner

    model = nn.Linear(3, 3)
    assert Replica({"model": OptimizedModule(model)}).modules["model"] is model


class Averages:
    """Keeps what it is given, as scripts do."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {"means": [torch.zeros(2)]}

    def state_dict(self) -> dict[str, Any]:
        return self.kept

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.kept = state


def odd_parts() -> dict[str, Any]:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1))
    optimizer.state[model.weight] = {"directions": [torch.ones(2)], "by": {"name": torch.ones(2)}}
    return {"model": model, "optimizer": optimizer, "averages": Averages()}


def test_no_tensor_of_what_was_restored_is_kept_however_deep_it_lies() -> None:
    """It may lie in a slot, which the next snapshot but one writes over."""
    packed = pack(Replica(odd_parts()).capture(), "state").frozen()
    target = Replica(odd_parts())
    target.restore(unpack(packed))
    before = pack(target.capture(), "state").frozen()
    for tensor in packed.tensors.values():
        tensor.fill_(7)
    assert before.equals(pack(target.capture(), "state"))
