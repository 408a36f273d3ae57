"""Every knob of the checkpoint indexer."""

import os
from pathlib import Path
from typing import Annotated

from everstep_runtime.settings import ServiceSettings
from pydantic import AfterValidator


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
