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
    CollectiveFailedError,
    FormingFailedError,
    StoreUnreachableError,
    dist.DistBackendError,
    dist.DistNetworkError,
)
_THROUGH_AUTOGRAD: Final = tuple(f"{kind.__name__}: " for kind in _BROKEN)
"""How an error looks that crossed torch's C++: a RuntimeError that quotes it."""


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
    broken = next(filter(_says_broken, _chain(error)), None)
    return None if broken is None else Broken(broken)


def _says_broken(error: BaseException) -> bool:
    if isinstance(error, _BROKEN):
        return True
    return isinstance(error, RuntimeError) and any(name in str(error) for name in _THROUGH_AUTOGRAD)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
