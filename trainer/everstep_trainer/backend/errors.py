"""Everything that can end a collective or keep a group from forming.

EverstepError
└── BackendError
    ├── OutOfOrderError         begin, form, leave, in this order: a bug, or a script's own group
    ├── TransportError          gloo's connections cannot be cut on this platform: next rung
    ├── StoreUnreachableError   no store answers there: another one, or a new generation
    ├── FormingFailedError      this generation will not form: report it, wait for the next
    └── CollectiveFailedError   a collective broke and no order has come yet: report it, wait
GenerationEnded                 (BaseException) an order ended the generation: leave, form again
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from everstep_contract.errors import EverstepError

Stage = Literal["device", "barrier", "group"]
"""Opening this rank's end, meeting the others, connecting to them."""


class GenerationEnded(BaseException):
    """This membership is over; whatever waited in one of its groups is let go.

    A ``BaseException``, so that a script's ``except Exception`` cannot swallow it. Where it has to
    cross C++ (a gradient hook, a future) it may arrive as a ``RuntimeError``: who catches anything
    asks ``Ending.reason`` before believing it.
    """

    def __init__(self, generation: int, reason: str) -> None:
        super().__init__(f"generation {generation} ended: {reason}")
        self.generation = generation
        self.reason = reason


class BackendError(EverstepError):
    """Root of what this package raises on purpose."""


class OutOfOrderError(BackendError):
    """A group was asked for outside a generation, or a generation begun inside another."""


class TransportError(BackendError):
    """gloo's own connections cannot be told from the script's, so they cannot be cut."""


class StoreUnreachableError(BackendError):
    """No store answered at this address in time."""

    def __init__(self, host: str, port: int, detail: str) -> None:
        super().__init__(f"no store answers at {host}:{port}: {detail}")
        self.host = host
        self.port = port


class FormingFailedError(BackendError):
    """A group could not be formed, though nobody ended the generation.

    ``missing`` names the ranks that never came to the barrier; empty when the barrier does not
    know, because the store was lost or the failure came after it.
    """

    def __init__(self, stage: Stage, detail: str, *, missing: Iterable[int] = ()) -> None:
        super().__init__(f"forming failed at the {stage}: {detail}")
        self.stage = stage
        self.missing = tuple(missing)


class CollectiveFailedError(BackendError, RuntimeError):
    """A collective broke: a peer closed its connection, or none came in time.

    ``peer_ranks`` are the ranks on the node that gloo's message names, if it is another node. They
    are where the break was seen, not who is to blame: those who leave make others fail.
    """

    def __init__(self, collective: str, detail: str, *, peer_ranks: Iterable[int] = ()) -> None:
        super().__init__(f"{collective} failed: {detail}")
        self.collective = collective
        self.peer_ranks = tuple(peer_ranks)


def causes(error: BaseException) -> Iterator[BaseException]:
    """``error`` and all that it came from, each once."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            pending += [each.__cause__, each.__context__]
