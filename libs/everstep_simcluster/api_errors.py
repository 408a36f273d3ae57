"""What the API server answers instead of an object: Status bodies, worded as the real one does."""

from collections.abc import Sequence
from typing import Any

from everstep_simcluster.resources import Object, Resource

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class ApiError(Exception):
    """A request the server refuses; carries the whole Status and its HTTP headers."""

    def __init__(
        self,
        code: int,
        message: str,
        *,
        reason: str = "",
        details: Object | None = None,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds is not None:
            details = {**(details or {}), "retryAfterSeconds": retry_after_seconds}
        self.status = status_failure(code, message, reason=reason, details=details)


def status_failure(
    code: int, message: str, *, reason: str = "", details: Object | None = None
) -> Object:
    """A Status of a failure. ``details`` None leaves the field out; an empty one is sent."""
    status: Object = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = details
    return {**status, "code": code}


def status_success(*, code: int | None = None, details: Object | None = None) -> Object:
    """A Status of success, as a binding, an eviction or the deletion of most kinds gets."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        status["details"] = details
    if code is not None:
        status["code"] = code
    return status


def named_details(resource: Resource, name: str, **more: Any) -> Object:
    """``details`` that name an object by its plural, as most answers do."""
    group = {"group": resource.group} if resource.group else {}
    return {"name": name, **group, "kind": resource.plural, **more}


def not_found(resource: Resource, name: str) -> ApiError:
    """404: no such object."""
    return ApiError(
        404,
        f'{resource.qualified} "{name}" not found',
        reason="NotFound",
        details=named_details(resource, name),
    )


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 AlreadyExists: the name is taken."""
    return ApiError(
        409,
        f'{resource.qualified} "{name}" already exists',
        reason="AlreadyExists",
        details=named_details(resource, name),
    )


def conflict(resource: Resource, name: str, why: str = MODIFIED, *, kind: str = "") -> ApiError:
    """409 Conflict: a precondition of the write does not hold. ``kind`` replaces the plural."""
    shown = kind or resource.qualified
    details = {**named_details(resource, name), "kind": kind or resource.plural}
    return ApiError(
        409,
        f'Operation cannot be fulfilled on {shown} "{name}": {why}',
        reason="Conflict",
        details=details,
    )


def bad_request(message: str) -> ApiError:
    """400: the request makes no sense, whatever the state of the cluster."""
    return ApiError(400, message, reason="BadRequest")


def invalid(resource: Resource, name: str, causes: Sequence[tuple[str, str, str]]) -> ApiError:
    """422: the object breaks a rule of its kind.

    Args:
        resource: The kind.
        name: The object's name as far as it is known.
        causes: (reason, field, message), at least one.
    """
    shown = f"{resource.kind}.{resource.group}" if resource.custom else resource.kind
    told = [f"{field}: {message}" for _, field, message in causes]
    text = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    details = {
        **named_details(resource, name),
        "kind": resource.kind,
        "causes": [
            {"reason": reason, "message": message, "field": field}
            for reason, field, message in causes
        ],
    }
    return ApiError(422, f'{shown} "{name}" is invalid: {text}', reason="Invalid", details=details)


def unsupported_media_type(message: str, *, details: Object | None = None) -> ApiError:
    """415: a patch in a form that this kind does not take."""
    return ApiError(415, message, reason="UnsupportedMediaType", details=details)


def refused_patch() -> ApiError:
    """422 without an explanation: an operation of a JSON patch failed, a test for example."""
    return ApiError(
        422,
        "the server rejected our request due to an error in our request",
        reason="Invalid",
        details={},
    )


def expired(message: str, *, continue_token: str | None = None) -> ApiError:
    """410: the history asked for is gone."""
    error = ApiError(410, message, reason="Expired")
    if continue_token is not None:
        error.status["metadata"] = {"continue": continue_token}
    return error
