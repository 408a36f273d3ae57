"""The tracked objects of one worker, taken together: one whole copy of the job's state.

The state is one nested value (`capture`), whether it goes to another worker, into a snapshot or
from the objects of the last generation into new ones; `restore` is its inverse. Random states are
no part of it: they are the process's own.
"""

import copy
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from everstep_trainer.library.errors import StateError, UncarriableStateError
from everstep_trainer.library.fitting import require_optimizer, require_options, require_tensors
from everstep_trainer.library.pieces import piece_of
from everstep_trainer.library.tree import pack

State = dict[str, Any]


@runtime_checkable
class Stateful(Protocol):
    """Anything small with a state: a scheduler, a gradient scaler, a counter of the script's."""

    def state_dict(self) -> dict[str, Any]:
        """Plain data and tensors."""

    def load_state_dict(self, state: dict[str, Any], /) -> Any:
        """Take such data over."""


class Replica:
    """The objects that were passed to `track`, by kind and name.

    Modules are kept without their wrappers: a wrapper belongs to one generation's groups, which
    must be able to go.

    Raises:
        StateError: Something has no state, or one that cannot be copied, or an optimizer steps
            parameters of no tracked module.
    """

    def __init__(self, objects: Mapping[str, object]) -> None:
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: dict[str, Optimizer] = {}
        self.others: dict[str, Stateful] = {}
        for name, thing in objects.items():
            self._add(name, thing)
        self._parameter_names = {
            id(parameter): f"{name}.{key}"
            for name, module in reversed(self.modules.items())
            for key, parameter in reversed(list(module.named_parameters()))
        }
        self._require_tracked_parameters()
        for name, state in self.capture().items():
            pack(state, name)  # refused here and now rather than at the first death
        # found once: a walk through every module would be too slow for every step
        self._buffers = [
            (owner, name)
            for module in self.modules.values()
            for owner in module.modules()
            for name in owner._buffers.keys() - owner._non_persistent_buffers_set
        ]

    def structure(self) -> int:
        """A digest of names, types and shapes, equal on workers that can copy from each other."""
        text = [f"{name} {value.dtype} {tuple(value.shape)}" for name, value in self._tensors()]
        for name, optimizer in self.optimizers.items():
            text.append(f"{name} {[len(group['params']) for group in optimizer.param_groups]}")
        text += sorted(self.others)
        return int.from_bytes(hashlib.blake2b("\n".join(text).encode(), digest_size=7).digest())

    def capture(self) -> State:
        """The whole state, by the names things are tracked by; its tensors are the live ones."""
        return {
            **{name: _module_tensors(name, module) for name, module in self.modules.items()},
            **{name: self._capture(optimizer) for name, optimizer in self.optimizers.items()},
            **{name: thing.state_dict() for name, thing in self.others.items()},
        }

    @torch.no_grad()
    def restore(self, state: State, *, others_stay: bool = False) -> frozenset[str]:
        """Take over a captured state; nothing of it is kept, so it can be restored again.

        Args:
            state: As `capture` gives it.
            others_stay: Whether it may be of some of the objects only; the others keep theirs.

        Returns:
            The names of those others.

        Raises:
            StateError: It is of other objects, names or shapes; what differs is named, and nothing
                has changed.
        """
        lacks = self._names() - state.keys()
        differ = sorted(
            state.keys() - self._names() if others_stay else state.keys() ^ self._names()
        )
        if differ:
            raise StateError(f"the state is of other objects than are tracked, such as {differ[0]}")
        live = {
            name: _module_tensors(name, module)
            for name, module in self.modules.items()
            if name in state
        }
        optimizers = {name: one for name, one in self.optimizers.items() if name in state}
        for name, tensors in live.items():
            require_tensors(name, state[name], tensors)
        for name, optimizer in optimizers.items():
            require_optimizer(name, optimizer, self._named(optimizer).keys(), state[name])
        for name, tensors in live.items():
            for key, tensor in tensors.items():
                tensor.copy_(state[name][key])
        for name, optimizer in optimizers.items():
            self._restore(name, optimizer, state[name])
        for name in self.others.keys() & state.keys():
            self.others[name].load_state_dict(_own(state[name]))
        return frozenset(lacks)

    def require_storable(self) -> None:
        """Look whether a shard has a type for all of the state that is there by now.

        Raises:
            UnstorableStateError: It has not; the tensor is named.
        """
        for name, tensor in pack(self.capture(), "state").tensors.items():
            piece_of(name, tensor)

    def holds_the_objects_of(self, other: "Replica") -> bool:
        """Whether both are the very same objects, so that nothing is to be carried over."""
        return all(
            mine.keys() == theirs.keys() and all(mine[name] is theirs[name] for name in mine)
            for mine, theirs in (
                (self.modules, other.modules),
                (self.optimizers, other.optimizers),
                (self.others, other.others),
            )
        )

    def buffers(self) -> list[torch.Tensor]:
        """What a forward may change: the buffers that belong to the state."""
        return [
            buffer for owner, name in self._buffers if (buffer := owner._buffers[name]) is not None
        ]

    def drop_gradients(self) -> None:
        """Forget gradients of a step that will be done again."""
        for module in self.modules.values():
            module.zero_grad(set_to_none=True)

    def _add(self, name: str, thing: object) -> None:
        if isinstance(thing, nn.Module):
            self.modules[name] = unwrapped(thing)
        elif isinstance(thing, Optimizer):
            self.optimizers[name] = thing
        elif isinstance(thing, Stateful):
            self.others[name] = thing
        else:
            raise StateError(f"{name} ({type(thing).__qualname__}) has no state_dict to track")

    def _names(self) -> set[str]:
        return {*self.modules, *self.optimizers, *self.others}

    def _capture(self, optimizer: Optimizer) -> State:
        # not state_dict(): on the way back that casts the state to the parameters' type
        state = {
            self._parameter_names[id(parameter)]: dict(optimizer.state[parameter])
            for parameter in _parameters(optimizer)
            if parameter in optimizer.state
        }
        parameters = [
            [self._parameter_names[id(parameter)] for parameter in group["params"]]
            for group in optimizer.param_groups
        ]  # that tools which know places only can be given it
        return {"options": capture_options(optimizer), "parameters": parameters, "state": state}

    def _restore(self, name: str, optimizer: Optimizer, captured: State) -> None:
        parameters = self._named(optimizer)
        restore_options(name, optimizer, captured["options"])
        before = {
            key: optimizer.state.pop(p) for key, p in parameters.items() if p in optimizer.state
        }
        optimizer.state.clear()
        for key, state in captured["state"].items():
            if state:
                old = before.get(key, {})
                optimizer.state[parameters[key]] = {
                    field: _taken_over(value, old.get(field)) for field, value in state.items()
                }

    def _named(self, optimizer: Optimizer) -> dict[str, torch.Tensor]:
        """The parameters that it steps."""
        return {self._parameter_names[id(p)]: p for p in _parameters(optimizer)}

    def _require_tracked_parameters(self) -> None:
        for name, optimizer in self.optimizers.items():
            unknown = sum(
                id(parameter) not in self._parameter_names for parameter in _parameters(optimizer)
            )
            if unknown:
                raise StateError(
                    f"{name} steps {unknown} parameters of no tracked module: track it as well"
                )

    def _tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, module in self.modules.items():
            for key, tensor in _module_tensors(name, module).items():
                yield f"{name}.{key}", tensor


def unwrapped(module: nn.Module) -> nn.Module:
    """The script's own module inside DDP and torch.compile."""
    while True:
        inner = getattr(module, "_orig_mod", None)
        if isinstance(module, DistributedDataParallel):
            inner = module.module
        if not isinstance(inner, nn.Module):
            return module
        module = inner


def _module_tensors(name: str, module: nn.Module) -> dict[str, torch.Tensor]:
    """Parameters and persistent buffers by name; the live tensors."""
    tensors: dict[str, Any] = module.state_dict(keep_vars=True)
    for key, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            raise UncarriableStateError(f"{name}.{key}", value)
    return tensors


def _parameters(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def capture_options(optimizer: Optimizer) -> list[dict[str, Any]]:
    """Learning rate and the like, one entry a parameter group; schedulers change them."""
    return [
        {key: _own(value) for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]


def restore_options(name: str, optimizer: Optimizer, options: list[dict[str, Any]]) -> None:
    """Set what `capture_options` gave.

    Raises:
        StateError: It was of other groups, or of another kind of optimizer; nothing has changed.
    """
    require_options(name, optimizer, options)
    for group, entry in zip(optimizer.param_groups, options, strict=True):
        group.update(_own(entry))


def _taken_over(value: Any, old: Any) -> Any:
    """A copy of ``value``, in the memory of what was there if it fits: new memory is not free."""
    if not isinstance(value, torch.Tensor) or not isinstance(old, torch.Tensor):
        return _own(value)
    if (old.shape, old.dtype, old.device) != (value.shape, value.dtype, value.device):
        return _own(value)
    return old.copy_(value)


def _own(value: Any) -> Any:
    """The same with tensors of its own: those it has may lie in memory that is written over."""
    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        own = copy.copy(value)
        own.update((key, _own(item)) for key, item in value.items())
        return own
    if type(value) in (list, tuple):
        return type(value)(map(_own, value))
    return value
