"""The public face of Everstep for training scripts: `import everstep`."""

from importlib.metadata import PackageNotFoundError, version

from everstep_trainer.backend import GenerationEnded
from everstep_trainer.library.errors import (
    AgentGoneError,
    LaunchError,
    LibraryError,
    LoopError,
    StateError,
)
from everstep_trainer.library.generation import Generation
from everstep_trainer.library.job import Job
from everstep_trainer.library.joining import join
from everstep_trainer.library.loaders import Loader, StepLoader
from everstep_trainer.library.steps import Step

__all__ = [
    "AgentGoneError",
    "Generation",
    "GenerationEnded",
    "Job",
    "LaunchError",
    "LibraryError",
    "Loader",
    "LoopError",
    "StateError",
    "Step",
    "StepLoader",
    "__version__",
    "join",
]

try:
    __version__ = version("everstep")
except PackageNotFoundError:  # a checkout that is on the path and was not installed
    __version__ = "0+unknown"
