"""What can be wrong with a checkpoint on storage.

EverstepError
└── CheckpointError
    ├── DamagedError        bytes are not what was written: use another checkpoint
    ├── IncompleteError     a shard is missing: it cannot be committed
    └── StorageFullError    no room: prune, then try again
"""

from pathlib import Path

from everstep_contract.errors import EverstepError


class CheckpointError(EverstepError):
    """Something is wrong with a checkpoint on storage."""


class DamagedError(CheckpointError):
    """A file is not what its manifest, or its own header, says."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


class IncompleteError(CheckpointError):
    """A checkpoint lacks a shard, or has one of another size."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


class StorageFullError(CheckpointError):
    """There is no room, by the disk or by the quota; nothing of the attempt is left."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path}: no room left")
        self.path = path
