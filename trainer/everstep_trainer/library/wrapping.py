"""What torch's own wrappers must do differently in a group that heals."""

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from torch import nn
from torch.nn.parallel import DistributedDataParallel, distributed

_FIRST_BROADCAST: Final = "_sync_module_states"
_FIRST_CHECK: Final = "_verify_param_shape_across_processes"


@contextlib.contextmanager
def no_first_broadcast() -> Iterator[list[nn.Module]]:
    """Keep DDP's constructor from overwriting every replica with rank 0's.

    After a failure rank 0 may be a newcomer, or a step behind, while the newest state lives
    elsewhere; and a broadcast that is interrupted leaves a mixture. The agreement checks and brings
    every rank to the right state a moment later, the first time too, so within a generation DDP
    leaves it out. torch has no switch for it but an argument that every script would have to pass.

    Yields:
        The modules that went without: each of them has to be agreed on.
    """
    without: list[nn.Module] = []

    def note(*, module: nn.Module, **_arguments: Any) -> None:
        without.append(module)

    def nothing(*_arguments: Any) -> None:
        pass

    theirs = {name: getattr(distributed, name) for name in (_FIRST_BROADCAST, _FIRST_CHECK)}
    setattr(distributed, _FIRST_BROADCAST, note)
    setattr(distributed, _FIRST_CHECK, nothing)
    try:
        yield without
    finally:
        for name, function in theirs.items():
            setattr(distributed, name, function)


def synchronise_gradients(module: nn.Module, *, enabled: bool) -> None:
    """Have the next backward average gradients over the ranks, or only add them up here."""
    module = getattr(module, "_orig_mod", module)  # inside torch.compile
    if isinstance(module, DistributedDataParallel):
        module.require_backward_grad_sync = enabled
        return
    set_sync = getattr(module, "set_requires_gradient_sync", None)
    if callable(set_sync):  # a `fully_shard` module
        set_sync(enabled)
