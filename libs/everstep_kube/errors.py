"""Everything that can go wrong between us and the API server.

EverstepError
└── KubeError
    ├── KubeConfigError         no usable way to a cluster: the start fails
    ├── TransientKubeError      no answer, or one that may be another later: try again
    ├── ConflictError           somebody wrote first, or another object has the name: read again
    ├── GoneError               the version or page asked for is no longer kept: list again
    ├── NotFoundError           there is no such object
    └── RejectedError           the same request never succeeds
"""

from everstep_contract.errors import EverstepError


class KubeError(EverstepError):
    """Something about the cluster's API."""


class KubeConfigError(KubeError):
    """No cluster is configured here, or not in a way that can be used."""


class AnswerError(KubeError):
    """The API server answered with an error, or not at all (``status`` 0)."""

    def __init__(self, request: str, *, status: int, reason: str) -> None:
        super().__init__(f"{request}: {status or 'no answer'}: {reason}")
        self.status = status
        self.reason = reason


class TransientKubeError(AnswerError):
    """The same request may succeed later; ``retry_after_seconds`` is the server's wish."""

    retry_after_seconds: float = 0.0


class ConflictError(AnswerError):
    """A resource version or uid that is not the object's any more."""


class GoneError(AnswerError):
    """410, in whichever of its three forms: list again."""


class NotFoundError(AnswerError):
    """No object of that name."""


class RejectedError(AnswerError):
    """Not allowed, or not understood."""


def error_of(request: str, status: int, reason: str) -> AnswerError:
    """The error for an HTTP status. 401 is transient: tokens rotate, and are read again."""
    match status:
        case 404:
            return NotFoundError(request, status=status, reason=reason)
        case 409:
            return ConflictError(request, status=status, reason=reason)
        case 410:
            return GoneError(request, status=status, reason=reason)
        case 0 | 401 | 408 | 429:
            return TransientKubeError(request, status=status, reason=reason)
        case _ if status >= 500:
            return TransientKubeError(request, status=status, reason=reason)
        case _:
            return RejectedError(request, status=status, reason=reason)
