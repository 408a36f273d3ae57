"""What a training script can do wrong, and what can keep the library from going on.

EverstepError
└── LibraryError
    ├── LaunchError             not started the way `join` needs it: start it by `everstep run`
    ├── LoopError               the loop is used in a way that no version could describe
    │   └── StaleGroupError     something of an earlier generation was used in a later one
    ├── StateError              the tracked objects cannot be one replica of the job's state
    │   ├── ReplicasDifferError     not the same objects, names or shapes on every rank
    │   ├── CheckpointDiffersError  a good checkpoint, but of other tensors than are tracked
    │   ├── StateLostError          no living worker holds a whole state, in use or as a snapshot
    │   ├── NothingLoadableError    there are checkpoints, and none of them can be loaded
    │   ├── UncarriableStateError   a value that cannot be sent without pickle
    │   └── UnstorableStateError    a tensor that can be sent, and that no shard has a type for
    └── AgentGoneError          the member's agent ended; so must its workers
"""

from collections.abc import Sequence
from typing import Final

from everstep_contract.errors import EverstepError

MAX_NAMED: Final = 8
"""Checkpoints that an error lists, newest first."""


class LibraryError(EverstepError):
    """Root of what the library raises on purpose."""


class LaunchError(LibraryError):
    """This process was not started in a way that lets it join."""


class LoopError(LibraryError):
    """The loop does something that would make the count of steps wrong."""


class StaleGroupError(LoopError):
    """A process group, mesh or wrapped model of an earlier generation was used."""

    def __init__(self, used: int, current: int) -> None:
        super().__init__(
            f"a process group of generation {used} was used in generation {current}: "
            "wrap the model anew inside each `with generation:`"
        )
        self.used = used
        self.current = current


class StateError(LibraryError):
    """The tracked objects cannot be a replica of the job's state."""


class ReplicasDifferError(StateError):
    """The ranks track different things, so that none can take over another's state."""


class CheckpointDiffersError(StateError):
    """A checkpoint is what was written, and holds something else than the state that is wanted."""

    def __init__(self, tensor: str, why: str) -> None:
        super().__init__(f"tensor {tensor!r} in the checkpoint {why}")
        self.tensor = tensor


class StateLostError(StateError):
    """Every replica is torn, and there is no snapshot: going on would train on rubbish."""

    def __init__(self, step: int) -> None:
        super().__init__(
            f"step {step} was reached, but no living worker holds a whole state, nor a snapshot"
        )
        self.step = step


class NothingLoadableError(StateError):
    """Checkpoints were written, so beginning again at step 0 would lose work without a word."""

    def __init__(self, checkpoints: Sequence[str]) -> None:
        named = ", ".join(checkpoints[:MAX_NAMED])
        more = len(checkpoints) - MAX_NAMED
        super().__init__(
            f"none of the checkpoints {named}{f' and {more} older' if more > 0 else ''} can be "
            "loaded (the log says why of each); to begin again without them, give the job an empty "
            "checkpoint folder"
        )


class UncarriableStateError(StateError):
    """A piece of state that is neither a plain tensor nor plain data; ``kind`` says what it is."""

    def __init__(self, where: str, value: object, kind: str = "") -> None:
        kind = kind or f"{type(value).__module__}.{type(value).__qualname__}"
        super().__init__(f"{where} is a {kind}, which cannot be copied to another worker")
        self.where = where


class UnstorableStateError(StateError):
    """A tensor whose elements are of a type that no shard can hold."""

    def __init__(self, tensor: str, kind: str) -> None:
        super().__init__(
            f"tensor {tensor!r} is of type {kind}, which neither a snapshot nor a checkpoint can "
            "hold: keep it as tensors of another type (a complex one by `torch.view_as_real`), or "
            "join with snapshot_every=0 and checkpoint_every=0"
        )
        self.tensor = tensor


class AgentGoneError(LibraryError):
    """The agent of this worker ended, or closed the link to it."""
