"""How a generation ends for its worker, judged from whatever came out of its block."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import torch.distributed as dist

from everstep_trainer.backend import (
    CollectiveFailedError,
    Ending,
    FormingFailedError,
    GenerationEnded,
    StoreUnreachableError,
)
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


@dataclass(frozen=True)
class Broken:
    """Forming or a collective failed before any order came."""

    error: BaseException

    @property
    def peer_ranks(self) -> tuple[int, ...]:
        """The ranks that the error names, if any."""
        if isinstance(self.error, CollectiveFailedError):
            return self.error.peer_ranks
        return self.error.missing if isinstance(self.error, FormingFailedError) else ()


@dataclass(frozen=True)
class Done:
    """The loop reached its end on all ranks."""


Outcome = Ended | Broken | Done


def judge(error: BaseException, ending: Ending) -> Outcome | None:
    """What an exception means for the generation; None if it is the script's own.

    Whatever is raised while the flag is set is the generation's end, in whichever disguise: user
    code may have caught `GenerationEnded` and raised something else.

    Raises:
        StaleGroupError: A group of an earlier generation was used.
    """
    if isinstance(error, _NEVER_SWALLOWED):
        return None
    if ending.reason is not None:
        return Ended()
    if isinstance(error, GenerationEnded):
        raise StaleGroupError(error.generation, ending.generation) from error
    if ending.failure is not None:  # in a backward it arrives as some RuntimeError
        return Broken(ending.failure)
    broken = next((link for link in _chain(error) if isinstance(link, _BROKEN)), None)
    return None if broken is None else Broken(broken)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
