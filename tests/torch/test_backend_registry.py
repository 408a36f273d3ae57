"""Generations begin, form and leave in this order, in a process of one rank."""

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from everstep_trainer.backend import (
    Ending,
    Formation,
    Graveyard,
    OutOfOrderError,
    StoreClients,
    begin,
    form,
    install,
    is_proven_torch,
    leave,
)
from everstep_trainer.backend import store as stores
from torch._C._distributed_c10d import HashStore


@pytest.fixture
def formed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Ending]]:
    """``formed(n)``: the ending of generation n, which is formed of this process alone."""
    monkeypatch.setattr(stores, "forget_name_servers_in_this_process", lambda: None)
    hosted, clients = stores.host_store("127.0.0.1"), StoreClients()
    install()

    def make(generation: int) -> Ending:
        ending = begin(generation)
        client = clients.get("127.0.0.1", hosted.port, ending)
        form(client, Formation(prefix=f"g{generation}", rank=0, world_size=1), ending)
        return ending

    yield make
    leave()
    gc.unfreeze()


def test_a_generation_after_another_names_its_groups_alike(formed: Callable[[int], Ending]) -> None:
    names = []
    for generation in range(3):
        formed(generation)
        names.append(dist.distributed_c10d._get_default_group().group_name)
        leave()
    assert len(set(names)) == 1


def test_a_generation_is_not_begun_inside_another(formed: Callable[[int], Ending]) -> None:
    formed(1)
    with pytest.raises(OutOfOrderError, match="generation 1 has not been left"):
        begin(2)


def test_no_group_is_made_outside_a_generation() -> None:
    install()
    with pytest.raises(OutOfOrderError, match="outside any generation"):
        dist.init_process_group("everstep", store=HashStore(), rank=0, world_size=1)
    leave()


def test_no_group_is_made_before_the_generation_is_formed() -> None:
    install()
    begin(1)
    with pytest.raises(OutOfOrderError, match="before the generation was formed"):
        dist.init_process_group("everstep", store=HashStore(), rank=0, world_size=1)
    leave()


def test_leaving_twice_is_leaving_once() -> None:
    leave()
    leave()
    assert not dist.is_initialized()


def test_forming_leaves_the_scripts_hook_for_exceptions_alone(
    formed: Callable[[int], Ending],
) -> None:
    hook = sys.excepthook
    formed(1)
    assert sys.excepthook is hook


class Kept:
    """Something that autograd holds on to through a node of its graph."""


class Holding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, given: torch.Tensor, kept: Kept) -> torch.Tensor:
        ctx.kept = kept
        return given * 1

    @staticmethod
    def backward(_ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None


class Failing(torch.autograd.Function):
    @staticmethod
    def forward(_ctx: Any, given: torch.Tensor) -> torch.Tensor:
        return given * 1

    @staticmethod
    def backward(_ctx: Any, *_gradients: Any) -> Any:
        raise RuntimeError("as an interrupted collective does")


def interrupted_backward() -> None:
    holding: Any = Holding
    failing: Any = Failing
    kept, given = Kept(), torch.ones(2, requires_grad=True)
    held = holding.apply(given, kept)  # waits in the queue when the newer node fails
    (held + failing.apply(given)).sum().backward()


def test_leaving_frees_the_model_of_an_interrupted_backward() -> None:
    with pytest.raises(RuntimeError, match="interrupted") as raised:
        interrupted_backward()
    leave(raised.value)
    assert not any(type(each) is Kept for each in gc.get_objects())


class Stuck:
    """A work that gloo has forgotten."""

    def __init__(self) -> None:
        self.done = False

    def is_completed(self) -> bool:
        return self.done


def test_a_graveyard_keeps_a_generation_until_its_last_work_is_done() -> None:
    graveyard, ending, work = Graveyard(), Ending(1), Stuck()
    ending.track(work)  # type: ignore[arg-type]  # a work in all that matters here
    graveyard.bury(ending)
    assert graveyard.sweep() == 1
    work.done = True
    assert graveyard.sweep() == 0


def test_this_torch_is_one_that_was_proven() -> None:
    assert is_proven_torch()
