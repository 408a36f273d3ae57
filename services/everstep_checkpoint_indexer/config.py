"""Every knob of the checkpoint indexer."""

import os
from pathlib import Path
from typing import Annotated

from everstep_checkpoint.retention import Retention
from everstep_runtime.settings import ServiceSettings
from pydantic import AfterValidator, Field

from everstep_checkpoint_indexer.model import Policy


def _writable_folder(path: str) -> str:
    if not Path(path).is_dir():
        raise ValueError("not a folder")
    if not os.access(path, os.W_OK | os.X_OK):
        raise ValueError("not writable")
    return path


class Settings(ServiceSettings):
    """What the checkpoint indexer can be told, each as ``EVERSTEP_<FIELD>``."""

    checkpoint_root: Annotated[str, AfterValidator(_writable_folder)]
    """The folder, shared with every trainer, below which all jobs' checkpoints lie."""
    keep_last: int = Field(default=2, ge=2, description="Newest verified ones that stay.")
    keep_every: int = Field(default=0, ge=0, description="Steps of which multiples stay; 0: none.")
    keep_bytes: int | None = Field(
        default=None, ge=0, description="Older ones stay while a lineage has no more; unset: go."
    )

    def policy(self) -> Policy:
        """What the operator chose."""
        return Policy(retention=Retention(self.keep_last, self.keep_every, self.keep_bytes))
