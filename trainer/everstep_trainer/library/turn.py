"""What a step changes besides tensors that optimizers step, kept until the step is completed (R22).

An interrupted step is done again, so whatever its forward or a scheduler has moved meanwhile goes
back. If the optimizers had stepped already, the step counts, and what was to follow them follows.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from everstep_trainer.library.replica import (
    Replica,
    Stateful,
    capture_options,
    restore_options,
)
from everstep_trainer.library.rng import capture_rng, restore_rng
from everstep_trainer.library.tree import Packed, pack, unpack

log = logging.getLogger("everstep")


@dataclass(frozen=True)
class TurnStart:
    """How things were when a turn of the loop began."""

    others: dict[str, Packed]
    options: dict[str, list[dict[str, Any]]]
    buffers: list[torch.Tensor]
    rng: dict[str, Any]

    @classmethod
    def of(cls, replica: Replica) -> "TurnStart":
        """Now. Costs some microseconds an object, and a copy of the buffers."""
        return cls(
            {name: _pack(name, thing) for name, thing in replica.others.items()},
            {name: capture_options(optimizer) for name, optimizer in replica.optimizers.items()},
            [buffer.detach().clone() for buffer in replica.buffers()],
            capture_rng(),
        )

    @torch.no_grad()
    def restore(self, replica: Replica) -> None:
        """Put everything back: the turn will be done again.

        Raises:
            StateError: The turn has given an optimizer one more group of parameters.
        """
        for name, optimizer in replica.optimizers.items():
            restore_options(name, optimizer, self.options[name])
        for name, thing in replica.others.items():
            thing.load_state_dict(unpack(self.others[name]))
            if isinstance(thing, GradScaler):
                thing._per_optimizer_states.clear()  # else it would refuse to unscale once more
        for live, kept in zip(replica.buffers(), self.buffers, strict=True):
            live.copy_(kept)
        restore_rng(self.rng)

    def moved_since(self, before: Mapping[str, Packed]) -> frozenset[str]:
        """Which of the small objects have changed since they were like this."""
        return frozenset(
            name for name, state in self.others.items() if not state.equals(before[name])
        )

    def follow(self, replica: Replica, habit: frozenset[str]) -> None:
        """Do what was to come after the optimizers' steps, for objects that usually move."""
        for name in sorted(habit):
            thing = replica.others[name]
            if _pack(name, thing).equals(self.others[name]):
                _advance(name, thing)


def _pack(name: str, thing: Stateful) -> Packed:
    """The state of a small object, by value."""
    return pack(thing.state_dict(), name).frozen()


def _advance(name: str, thing: Stateful) -> None:
    if isinstance(thing, LRScheduler) and not isinstance(thing, ReduceLROnPlateau):
        thing.step()
    elif isinstance(thing, GradScaler):
        thing.update()
    else:
        log.warning("%s was not brought forward: its step was interrupted before", name)
