"""Everything that can go wrong between us and the API server, and nothing else gets out of here.

EverstepError
└── KubeError
    ├── KubeConfigError             no usable way to a cluster: the start fails
    └── AnswerError                 the server answered with an error, or not at all
        ├── TransientKubeError      the same request may succeed later: try again
        │   ├── UnavailableError    no answer, none of an API server, or one that it is in trouble
        │   └── ThrottledError      too many requests, or an eviction that a budget forbids now
        ├── RejectedError           not as things are: do not repeat it until something changed
        │   ├── DeniedError         our credentials are not accepted, or do not allow it
        │   └── InvalidError        the server does not understand it, or it breaks a rule
        │       └── AnswerTooLargeError
        ├── ConflictError           somebody wrote first, or another has the name: read again
        │   └── AlreadyExistsError  the name of what was to be created is taken
        ├── GoneError               the version or page asked for is no longer kept: list again
        └── NotFoundError           there is no such object
"""

from collections.abc import Sequence
from typing import Final

from everstep_contract.errors import EverstepError

ALREADY_EXISTS: Final = "AlreadyExists"


class KubeError(EverstepError):
    """Something about the cluster's API."""


class KubeConfigError(KubeError):
    """No cluster is configured here, or not in a way that can be used."""


class AnswerError(KubeError):
    """The API server answered with an error, or not at all (``status`` 0).

    Attributes:
        status: The HTTP status, or the code of an ERROR event.
        reason: The word for machines in the Status, empty where there is none.
        causes: The reasons of its causes, e.g. ``DisruptionBudget``.
    """

    def __init__(
        self,
        request: str,
        *,
        status: int,
        message: str,
        reason: str = "",
        causes: Sequence[str] = (),
    ) -> None:
        said = ": ".join(part for part in (reason, message) if part)
        super().__init__(f"{request}: {status or 'no answer'}: {said}")
        self.status = status
        self.reason = reason
        self.causes = tuple(causes)


class TransientKubeError(AnswerError):
    """The same request may succeed later; ``retry_after_seconds`` is the server's wish."""

    retry_after_seconds: float = 0.0


class UnavailableError(TransientKubeError):
    """No answer, an answer of something else than an API server, or one that it is in trouble."""


class ThrottledError(TransientKubeError):
    """429: too many requests; or, of an eviction, that a disruption budget forbids it now."""


class RejectedError(AnswerError):
    """The same request never succeeds as things are."""


class DeniedError(RejectedError):
    """Our credentials are not accepted (401), also when read anew, or do not allow it (403)."""


class InvalidError(RejectedError):
    """Not understood, against a rule of the kind, or too large."""


class AnswerTooLargeError(InvalidError):
    """The answer has more bytes than we are willing to read: ask for less."""


class ConflictError(AnswerError):
    """A resource version, uid or tested value that is not the object's any more."""


class AlreadyExistsError(ConflictError):
    """An object of that name exists. Perhaps it is ours, of a try whose answer was lost."""


class GoneError(AnswerError):
    """410, in whichever of its three forms: list again."""


class NotFoundError(AnswerError):
    """No object of that name."""


def error_of(
    request: str, status: int, message: str, *, reason: str = "", causes: Sequence[str] = ()
) -> AnswerError:
    """The error that an answer means. Both meanings of 409 have one status; the reason tells."""
    kind = AlreadyExistsError if reason == ALREADY_EXISTS else _class_of(status)
    return kind(request, status=status, message=message, reason=reason, causes=causes)


def _class_of(status: int) -> type[AnswerError]:
    match status:
        case 401 | 403:
            return DeniedError
        case 404:
            return NotFoundError
        case 409:
            return ConflictError
        case 410:
            return GoneError
        case 429:
            return ThrottledError
        case _ if 400 <= status < 500 and status != 408:
            return InvalidError
        case _:
            return UnavailableError
