"""How a generation ends for its worker, judged from whatever came out of its block."""

from dataclasses import dataclass
from typing import Final

import torch.distributed as dist

from everstep_trainer.backend import (
    CollectiveFailedError,
    Ending,
    FormingFailedError,
    GenerationEnded,
    StoreUnreachableError,
    nccl,
)
from everstep_trainer.backend.errors import causes
from everstep_trainer.library.errors import StaleGroupError

_NEVER_SWALLOWED: Final = (KeyboardInterrupt, SystemExit, GeneratorExit)
_BROKEN: Final = (
    FormingFailedError,
    StoreUnreachableError,
    dist.DistBackendError,
    dist.DistNetworkError,
)


@dataclass(frozen=True)
class Ended:
    """An order, or the loss of the agent, ended the generation."""

    error: BaseException


@dataclass(frozen=True)
class Broken:
    """Forming or a collective failed before any order came.

    ``error`` is what came out of the script, ``cause`` what in it says how the group broke.
    """

    error: BaseException
    cause: BaseException

    @property
    def peer_ranks(self) -> tuple[int, ...]:
        """The ranks that the error names, if any."""
        if isinstance(self.cause, CollectiveFailedError):
            return self.cause.peer_ranks
        return self.cause.missing if isinstance(self.cause, FormingFailedError) else ()


@dataclass(frozen=True)
class Done:
    """The loop reached its end on all ranks."""


Outcome = Ended | Broken | Done


def judge(error: BaseException, ending: Ending) -> Outcome | None:
    """What an exception means for the generation; None if it is the script's own.

    Whatever is raised while the flag is set is the generation's end, in whichever disguise: user
    code may have caught `GenerationEnded` and raised something else. But for a GPU that refuses
    everything from here on: only a new process helps.

    Raises:
        StaleGroupError: A group of an earlier generation was used.
    """
    if isinstance(error, _NEVER_SWALLOWED) or nccl.next_rung(error) == "restart_worker":
        return None
    if ending.reason is not None:
        return Ended(error)
    if isinstance(error, GenerationEnded):
        raise StaleGroupError(error.generation, ending.generation) from error
    if ending.failure is not None:  # in a backward it arrives as some RuntimeError
        return Broken(error, ending.failure)
    broken = next((cause for cause in causes(error) if isinstance(cause, _BROKEN)), None)
    return None if broken is None else Broken(error, broken)
