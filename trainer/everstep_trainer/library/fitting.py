"""Whether a captured state fits the objects that are to take it over, before any changes."""

from collections.abc import Mapping, Set
from typing import Any

import torch
from torch.optim import Optimizer

from everstep_trainer.library.errors import StateError


def require_tensors(name: str, state: object, tensors: Mapping[str, torch.Tensor]) -> None:
    """A module's: every parameter and buffer, in its shape, and nothing else.

    Raises:
        StateError: It is another one's; what differs is named.
    """
    if not isinstance(state, Mapping):
        raise StateError(f"{name}: the state is a {type(state).__name__}, not that of a model")
    if state.keys() != tensors.keys():
        differ = sorted(map(str, state.keys() ^ tensors.keys()))[:3]
        raise StateError(f"{name} has other parameters or buffers than before, such as {differ}")
    for key, tensor in tensors.items():
        found = state[key]
        if not isinstance(found, torch.Tensor):
            raise StateError(f"{name}.{key} was a {type(found).__name__} before, not a tensor")
        if tensor.shape != found.shape:
            raise StateError(f"{name}.{key}: shape {tuple(tensor.shape)} was another before")


def require_optimizer(
    name: str, optimizer: Optimizer, parameters: Set[str], captured: object
) -> None:
    """An optimizer's: as many groups with the options of its kind, and parameters that it steps.

    Args:
        name: It is tracked by.
        optimizer: That is to take it over.
        parameters: Names of those that it steps.
        captured: The state.

    Raises:
        StateError: It is another one's; what differs is named.
    """
    state = captured.get("state") if isinstance(captured, Mapping) else None
    options = captured.get("options") if isinstance(captured, Mapping) else None
    if not isinstance(state, Mapping) or not isinstance(options, list):
        raise StateError(f"{name}: the state is not that of an optimizer")
    require_options(name, optimizer, options)
    unknown = sorted(map(str, state.keys() - parameters))
    if unknown:
        raise StateError(f"{name} has no parameter {unknown[0]!r}, which it had before")
    for key, fields in state.items():
        if not isinstance(fields, Mapping):
            raise StateError(f"{name}: what it had for {key!r} was a {type(fields).__name__}")


def require_options(name: str, optimizer: Optimizer, options: list[dict[str, Any]]) -> None:
    """The options of as many parameter groups, of an optimizer of this kind.

    A scheduler adds options, and so does a newer torch. So only where both sides have some that the
    other lacks is it another kind of optimizer.

    Raises:
        StateError: They are not; what differs is named.
    """
    groups = optimizer.param_groups
    if len(options) != len(groups):
        raise StateError(
            f"{name} has {len(groups)} parameter groups, and had {len(options)} before"
        )
    for at, (group, entry) in enumerate(zip(groups, options, strict=True)):
        if not isinstance(entry, Mapping):
            raise StateError(f"{name}: group {at} was a {type(entry).__name__} before")
        lacking = sorted(map(str, optimizer.defaults.keys() - entry.keys()))
        strange = sorted(map(str, entry.keys() - group.keys()))
        if lacking and strange:
            raise StateError(
                f"{name} was another kind of optimizer before: its group {at} had "
                f"{', '.join(strange)}, and not {', '.join(lacking)}"
            )
