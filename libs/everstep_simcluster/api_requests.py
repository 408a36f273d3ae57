"""An HTTP request as the API understands it: which kind, which object, which options."""

import json
import random
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from everstep_simcluster.api_errors import ApiError, bad_request, not_found
from everstep_simcluster.listing import ListRequest
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.resources import Object, Resource, find_resource
from everstep_simcluster.selectors import Selection, parse_selection
from everstep_simcluster.store import Ref
from everstep_simcluster.watching import WatchRequest

BODY_LIMIT_BYTES = 3 * 1024 * 1024
"""The largest request body the real server reads."""

DEFAULT_WATCH_SECONDS = (1800.0, 3600.0)
"""Bounds of a watch's life when the client names none."""

_TRUE = ("1", "true", "True")


@dataclass(frozen=True)
class Target:
    """What a path points at. ``name`` is empty for a collection."""

    resource: Resource
    namespace: str
    name: str
    subresource: str

    @property
    def ref(self) -> Ref:
        """Where the object lies."""
        return Ref(self.namespace if self.resource.namespaced else "", self.name)


def parse_target(path: str) -> Target | None:
    """Which kind and object ``path`` means; None for a page that is not there.

    Raises:
        ApiError: 404 for a subresource that the kind does not have.
    """
    parts = path.strip("/").split("/")
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    if not 1 <= len(rest) <= 3:
        return None
    plural, name, subresource = [*rest, "", ""][:3]
    resource = find_resource(group, version, plural)
    if resource is None or (namespace and not resource.namespaced):
        return None
    if subresource and subresource not in resource.subresources:
        raise not_found(resource, name)
    return Target(resource, namespace, name, subresource)


def verb_of(method: str, target: Target, *, watch: bool) -> str:
    """What the request is called in a role."""
    one = bool(target.name)
    match method:
        case "GET" | "HEAD" if watch and not one:
            return "watch"
        case "GET" | "HEAD":
            return "get" if one else "list"
        case "POST":
            return "create"
        case "PUT":
            return "update"
        case "DELETE":
            return "delete" if one else "deletecollection"
        case _:
            return method.lower()


async def read_body(request: web.Request) -> Any:
    """The JSON body; None where there is none.

    Raises:
        ApiError: 400 for what is no JSON, 413 for too much of it.
    """
    try:
        raw = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        message = f"Request entity too large: limit is {BODY_LIMIT_BYTES}"
        raise ApiError(413, message, reason="RequestEntityTooLarge") from error
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError as error:
        raise bad_request(f"the body of the request is not JSON: {error}") from error


def object_body(body: Any) -> Object:
    """``body`` as an object.

    Raises:
        ApiError: 400 when it is something else.
    """
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise bad_request("the body of the request must be a Kubernetes object")
    return body


def selection_of(request: web.Request, target: Target) -> Selection:
    """The selectors of a list, a watch or a bulk deletion."""
    labels = request.query.get("labelSelector", "")
    return parse_selection(target.resource, labels, request.query.get("fieldSelector", ""))


def is_watch(request: web.Request) -> bool:
    """Whether a read of a collection wants to stay open."""
    return request.query.get("watch", "") in _TRUE


def is_dry_run(request: web.Request) -> bool:
    """Whether a write is only to be tried."""
    return request.query.get("dryRun") == "All"


def wants_table(request: web.Request) -> bool:
    """Whether the client would rather have columns to print."""
    return "as=Table" in request.headers.get("Accept", "").split(",")[0]


def list_request(request: web.Request, target: Target) -> ListRequest:
    """Read the options of a list."""
    query = request.query
    return ListRequest(
        namespace=target.namespace,
        selection=selection_of(request, target),
        limit=_number(query.get("limit", "")),
        continue_token=query.get("continue", ""),
        resource_version=query.get("resourceVersion", ""),
        version_match=query.get("resourceVersionMatch", ""),
    )


def watch_request(request: web.Request, target: Target) -> WatchRequest:
    """Read the options of a watch."""
    query = request.query
    seconds = _number(query.get("timeoutSeconds", ""))
    return WatchRequest(
        namespace=target.namespace,
        selection=selection_of(request, target),
        resource_version=query.get("resourceVersion", ""),
        bookmarks=query.get("allowWatchBookmarks", "") in _TRUE,
        initial_events=query.get("sendInitialEvents", "") in _TRUE,
        timeout_seconds=seconds or random.uniform(*DEFAULT_WATCH_SECONDS),  # noqa: S311 - no secret
    )


def delete_options(request: web.Request, body: Any) -> DeleteOptions:
    """Read how to delete; the query outdoes the body."""
    read = DeleteOptions.from_body(object_body(body)) if body else DeleteOptions()
    grace = request.query.get("gracePeriodSeconds")
    return DeleteOptions(
        grace_seconds=_number(grace) if grace else read.grace_seconds,
        uid=read.uid,
        resource_version=read.resource_version,
        dry_run=read.dry_run or is_dry_run(request),
    )


def _number(text: str) -> int:
    if not text:
        return 0
    if not text.isdecimal():
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)
