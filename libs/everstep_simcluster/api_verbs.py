"""What each HTTP method does to a collection, an object or one of its subresources."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from aiohttp import web

from everstep_simcluster.api_errors import ApiError, bad_request, status_success
from everstep_simcluster.api_requests import (
    Target,
    delete_options,
    is_dry_run,
    list_request,
    object_body,
    selection_of,
    wants_table,
)
from everstep_simcluster.disruption import evict
from everstep_simcluster.listing import list_objects, parse_version, too_large_version
from everstep_simcluster.objects import Objects, WriteOptions
from everstep_simcluster.patch import Patch
from everstep_simcluster.resources import PODS, Object, Resource
from everstep_simcluster.store import Ref
from everstep_simcluster.tables import as_table
from everstep_simcluster.watching import WatchRequest

FUTURE_VERSION_WAIT_SECONDS = 3.0
"""How long the real server waits for a revision it has not reached before it answers 504."""

_METHODS = {
    "": ("GET", "POST", "PUT", "PATCH", "DELETE"),
    "status": ("GET", "PUT", "PATCH"),
    "binding": ("POST",),
    "eviction": ("POST",),
    "log": ("GET",),
}
"""What can be done to an object (or collection) itself and to each of its subresources."""


class Verbs:
    """Performs requests that are not watches."""

    def __init__(self, objects: Objects, log_path: Callable[[Ref], Path | None]) -> None:
        self._objects = objects
        self._log_path = log_path

    async def perform(
        self, request: web.Request, target: Target, body: Any
    ) -> Object | web.Response:
        """Do what ``request`` asks for; returns what to answer.

        Raises:
            ApiError: What the client is to be told instead.
        """
        if request.method not in _METHODS[target.subresource]:
            raise _not_allowed()
        match request.method:
            case "GET":
                return await self._read(request, target)
            case "POST":
                return self._post(request, target, object_body(body))
            case "PUT":
                options = WriteOptions(target.subresource, is_dry_run(request))
                return self._objects.update(target.resource, target.ref, object_body(body), options)
            case "PATCH":
                options = WriteOptions(target.subresource, is_dry_run(request))
                patch = Patch(request.content_type, body)
                return self._objects.patch(target.resource, target.ref, patch, options)
            case "DELETE":
                return self._delete(request, target, body)
        raise _not_allowed()

    def rendered(self, request: web.Request, watch: WatchRequest) -> WatchRequest:
        """``watch`` with its objects as tables, if the client wants those."""
        return replace(watch, render=_one_row) if wants_table(request) else watch

    async def _read(self, request: web.Request, target: Target) -> Object | web.Response:
        if target.subresource == "log":
            return self._log(request, target.ref)
        if target.name:
            found = self._objects.get(target.resource, target.ref)
            return _one_row(target.resource, found) if wants_table(request) else found
        await self._wait_for_version(request)
        listed = list_objects(self._objects.store, target.resource, list_request(request, target))
        if wants_table(request):
            return as_table(target.resource, listed["items"], listed["metadata"])
        return listed

    async def _wait_for_version(self, request: web.Request) -> None:
        version = parse_version(request.query.get("resourceVersion", ""))
        if version > self._objects.store.revision:
            await asyncio.sleep(FUTURE_VERSION_WAIT_SECONDS)
            if version > self._objects.store.revision:
                raise too_large_version(self._objects.store, version)

    def _log(self, request: web.Request, ref: Ref) -> web.Response:
        self._objects.get(PODS, ref)
        path = self._log_path(ref)
        text = path.read_text(errors="replace") if path is not None and path.exists() else ""
        lines = request.query.get("tailLines")
        if lines and lines.isdecimal():
            text = "".join(text.splitlines(keepends=True)[-int(lines) :])
        return web.Response(text=text)

    def _post(self, request: web.Request, target: Target, body: Object) -> Object:
        dry_run = is_dry_run(request)
        match target.subresource:
            case "":
                if target.name or (target.resource.namespaced and not target.namespace):
                    raise _not_allowed()
                return self._objects.create(
                    target.resource, target.namespace, body, dry_run=dry_run
                )
            case "binding":
                node = (body.get("target") or {}).get("name")
                if not node:
                    raise bad_request("a binding needs target.name")
                self._objects.bind(target.ref, node, dry_run=dry_run)
            case "eviction":
                evict(
                    self._objects,
                    target.ref,
                    delete_options(request, body.get("deleteOptions")),
                )
        return status_success(code=201)

    def _delete(self, request: web.Request, target: Target, body: Any) -> Object:
        options = delete_options(request, body)
        resource = target.resource
        if not target.name:
            revision = self._objects.store.revision
            found = self._objects.delete_matching(
                resource, target.namespace, selection_of(request, target), options
            )
            return {
                "kind": f"{resource.kind}List",
                "apiVersion": resource.api_version,
                "metadata": {"resourceVersion": str(revision), "continue": ""},
                "items": found,
            }
        deleted = self._objects.delete(resource, target.ref, options)
        if resource is PODS:
            return deleted
        group = {"group": resource.group} if resource.group else {}
        uid = deleted["metadata"]["uid"]
        details = {"name": target.name, **group, "kind": resource.plural, "uid": uid}
        return status_success(details=details)


def _not_allowed() -> ApiError:
    return ApiError(
        405,
        "the server does not allow this method on the requested resource",
        reason="MethodNotAllowed",
        details={},
    )


def _one_row(resource: Resource, body: Object) -> Object:
    version = {"resourceVersion": body["metadata"]["resourceVersion"]}
    return as_table(resource, [body], version)
