"""What can be wrong with a checkpoint on storage.

EverstepError
└── CheckpointError
    ├── DamagedError        bytes are not what was written: use another checkpoint
    ├── IncompleteError     a shard is missing: it cannot be committed
    ├── StorageFullError    no room: prune, then try again
    ├── UnusableRootError   a root that is not there, or that nothing here can read
    ├── NoRoomError         too little memory for snapshots
    ├── OverwrittenError    a snapshot was written over while it was read
    ├── StoppedError        somebody ended the reading
    ├── NoSuchCheckpointError   there is none of this name, or more than one
    └── UnfitError          a file that is no checkpoint of ours, nor can be made one
"""

from collections.abc import Sequence

from everstep_contract.errors import EverstepError


class CheckpointError(EverstepError):
    """Something is wrong with a checkpoint on storage."""


class DamagedError(CheckpointError):
    """A file is not what its manifest, or its own header, says."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where


class IncompleteError(CheckpointError):
    """A checkpoint lacks a shard, or has one of another size."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where


class StorageFullError(CheckpointError):
    """There is no room, by the disk or by the quota; nothing of the attempt is left."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: no room left")
        self.where = where


class UnusableRootError(CheckpointError):
    """It is not there, is not ours, or is a URL that no installed library reads."""

    def __init__(self, root: str, why: str) -> None:
        super().__init__(f"{root}: {why}")
        self.root = root


class NoRoomError(CheckpointError):
    """There is too little memory for two snapshots of this state."""

    def __init__(self, needed_bytes: int, available_bytes: int) -> None:
        gib = 1 << 30
        super().__init__(
            f"snapshots need {needed_bytes / gib:.2f} GiB of memory beside the training, and "
            f"{available_bytes / gib:.2f} GiB are left: raise the pod's memory limit by the "
            "difference (/dev/shm is not used, so neither --shm-size nor an emptyDir matters), or "
            "join with snapshot_every=0 and checkpoint_every=0"
        )
        self.needed_bytes = needed_bytes
        self.available_bytes = available_bytes


class OverwrittenError(CheckpointError):
    """The writer was faster than the reader; the reader has nothing."""

    def __init__(self, generation: int, step: int) -> None:
        super().__init__(f"the snapshot of step {step}, generation {generation}, is gone")
        self.generation = generation
        self.step = step


class StoppedError(CheckpointError):
    """The reading was ended before its end: nothing is known."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where}: not read to its end")
        self.where = where


class NoSuchCheckpointError(CheckpointError):
    """There is no checkpoint of this name, or several jobs or lineages have one."""

    def __init__(self, name: str, whose: Sequence[str]) -> None:
        known = f"several have one: {', '.join(whose)}" if whose else "there is none"
        super().__init__(f"checkpoint {name!r}: {known}")
        self.name = name


class UnfitError(CheckpointError):
    """What was to be imported or exported cannot be."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
