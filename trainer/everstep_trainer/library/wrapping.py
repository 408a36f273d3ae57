"""What torch's own wrappers must do differently in a group that heals."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel, distributed


@contextlib.contextmanager
def no_first_broadcast() -> Iterator[None]:
    """Keep DDP's constructor from overwriting every replica with rank 0's.

    After a failure rank 0 may be a newcomer, or a step behind, while the newest state lives
    elsewhere; and a broadcast that is interrupted leaves a mixture. The agreement brings every rank
    to the right state a moment later, the first time too, so within a generation DDP leaves it out.
    torch has no switch for it but an argument that every script would have to pass.
    """
    name = "_sync_module_states"
    theirs = getattr(distributed, name)
    setattr(distributed, name, _left_to_the_agreement)
    try:
        yield
    finally:
        setattr(distributed, name, theirs)


def synchronise_gradients(module: nn.Module, *, enabled: bool) -> None:
    """Have the next backward average gradients over the ranks, or only add them up here."""
    if isinstance(module, DistributedDataParallel):
        module.require_backward_grad_sync = enabled
        return
    set_sync = getattr(module, "set_requires_gradient_sync", None)
    if callable(set_sync):  # a `fully_shard` module
        set_sync(enabled)


def _left_to_the_agreement(**_arguments: Any) -> None:
    """Stands in for torch's broadcast."""
