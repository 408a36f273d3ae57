"""Lists: narrowed, paged, at an old revision or not older than one."""

import base64
import binascii
import json
from dataclasses import dataclass

from everstep_simcluster.api_errors import ApiError, bad_request, expired
from everstep_simcluster.resources import Object, Resource
from everstep_simcluster.selectors import EVERYTHING, Selection
from everstep_simcluster.store import HistoryExpiredError, Store

_TOO_OLD = "The resourceVersion for the provided list is too old."
_PAGE_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start "
    "a new list without the continue parameter, or use the continue token in this response to "
    "retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)
_NEWEST = -1


@dataclass(frozen=True)
class ListRequest:
    """What a list asks for. ``limit`` 0 means all; the empty version means the newest."""

    namespace: str = ""
    selection: Selection = EVERYTHING
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    version_match: str = ""


@dataclass(frozen=True)
class _Position:
    """Where a paged list goes on: after ``start``, as things were at ``revision``."""

    revision: int
    start: str

    def encode(self) -> str:
        body = {"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start}
        text = json.dumps(body, separators=(",", ":"))
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, token: str) -> "_Position":
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            body = json.loads(raw)
            return cls(int(body["rv"]), str(body["start"]))
        except (binascii.Error, ValueError, KeyError, TypeError) as error:
            raise bad_request(
                f"invalid continue token: continue key is not valid: {error}"
            ) from error


def parse_version(text: str) -> int:
    """A resourceVersion as a number; the empty one is 0.

    Raises:
        ApiError: 500 for what is no number, as the real server has it.
    """
    if not text:
        return 0
    if not text.isdecimal():
        raise ApiError(
            500,
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": '
            "invalid syntax",
        )
    return int(text)


def list_objects(store: Store, resource: Resource, request: ListRequest) -> Object:
    """The list object that answers ``request``.

    Raises:
        ApiError: 400 for a broken token, 410 for an old revision, 504 for a future one.
    """
    if request.continue_token:
        position = _Position.decode(request.continue_token)
    else:
        position = _Position(_wanted_revision(store, request), "")
    bodies = _bodies_at(store, resource, request, position)
    chosen = [body for body in bodies if request.selection.matches(body)]
    start = position.start.strip("/\x00")
    if start:
        chosen = [body for body in chosen if _key(body, request.namespace) > start]
    revision = store.revision if position.revision == _NEWEST else position.revision
    metadata: Object = {"resourceVersion": str(revision)}
    if request.limit and len(chosen) > request.limit:
        last = _key(chosen[request.limit - 1], request.namespace)
        metadata["continue"] = _Position(revision, f"/{last}\x00").encode()
        if not request.selection:
            metadata["remainingItemCount"] = len(chosen) - request.limit
        chosen = chosen[: request.limit]
    elif resource.custom:
        metadata["continue"] = ""
    return {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version,
        "metadata": metadata,
        "items": [_item(resource, body) for body in chosen],
    }


def _wanted_revision(store: Store, request: ListRequest) -> int:
    version = parse_version(request.resource_version)
    if version > store.revision:
        raise too_large_version(store, version)
    exact = request.version_match == "Exact" or (request.limit and version)
    return version if exact and version else _NEWEST


def too_large_version(store: Store, version: int) -> ApiError:
    """504: a revision that the store has not reached, as after a restored backup."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return ApiError(
        504,
        f"Timeout: Too large resource version: {version}, current: {store.revision}",
        reason="Timeout",
        details={"causes": [cause]},
        retry_after_seconds=1,
    )


def _bodies_at(
    store: Store, resource: Resource, request: ListRequest, position: _Position
) -> list[Object]:
    if position.revision == _NEWEST:
        return store.every(resource, request.namespace)
    try:
        return store.list_at(resource, request.namespace, position.revision)
    except HistoryExpiredError as error:
        if not request.continue_token:
            raise expired(_TOO_OLD) from error
        start = position.start.strip("/\x00") + "\x00"
        raise expired(_PAGE_TOO_OLD, continue_token=_Position(_NEWEST, start).encode()) from error


def _key(body: Object, namespace: str) -> str:
    metadata = body["metadata"]
    if namespace or "namespace" not in metadata:
        return str(metadata["name"])
    return f"{metadata['namespace']}/{metadata['name']}"


def _item(resource: Resource, body: Object) -> Object:
    """Items of built-in kinds carry no kind of their own; custom ones do."""
    if resource.custom:
        return body
    return {key: value for key, value in body.items() if key not in ("kind", "apiVersion")}
