"""The API server: real clients and kubectl talk to it over HTTP on loopback."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, assert_never

from aiohttp import web

from everstep_simcluster.api_errors import ApiError
from everstep_simcluster.api_requests import (
    BODY_LIMIT_BYTES,
    Target,
    is_watch,
    parse_target,
    read_body,
    verb_of,
    watch_request,
)
from everstep_simcluster.api_verbs import Verbs
from everstep_simcluster.audit import Audit, Call, Write
from everstep_simcluster.discovery import discovery_document
from everstep_simcluster.misbehaviour import Drop, Hang, Misbehaviour, Refuse
from everstep_simcluster.objects import Objects
from everstep_simcluster.store import Ref
from everstep_simcluster.tokens import Tokens
from everstep_simcluster.watching import Watch

TERMINATION_LINGER_SECONDS = 60.0
"""How long the real server keeps open watches after SIGTERM, quiet, before it ends them."""

_READS = ("GET", "HEAD", "OPTIONS")
_PROBES = ("/healthz", "/livez", "/readyz")


class ApiServer:
    """Serves ``objects``. One event loop owns it.

    Args:
        objects: What is served; shared with the controllers of this process.
        log_path: Where the output of a pod's process lies, None where it has none.
        bookmark_interval_seconds: How often a watch that asked for bookmarks gets one.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        log_path: Callable[[Ref], Path | None] = lambda ref: None,
        bookmark_interval_seconds: float = 60.0,
    ) -> None:
        self.objects = objects
        self.audit = Audit()
        self.misbehaviour = Misbehaviour()
        self.tokens = Tokens()
        self._verbs = Verbs(objects, log_path)
        self._bookmark_interval_seconds = bookmark_interval_seconds
        self._watches: set[Watch] = set()
        self._watches_gone = asyncio.Event()
        self._watches_gone.set()
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._extra_routes: list[web.RouteDef] = []
        self.port = 0

    @property
    def url(self) -> str:
        """Where clients reach it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_watches(self) -> tuple[Watch, ...]:
        """The watches that are open now."""
        return tuple(self._watches)

    @property
    def is_serving(self) -> bool:
        """Whether it listens, or at least has connections that it has not ended."""
        return self._runner is not None

    def add_routes(self, routes: list[web.RouteDef]) -> None:
        """Serve these pages beside the API; to be called before :meth:`start`."""
        self._extra_routes += routes

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; port 0 takes a free one, or the one of the last start.

        Raises:
            OSError: The port is in use.
        """
        app = web.Application(client_max_size=BODY_LIMIT_BYTES)
        app.add_routes([*self._extra_routes, web.route("*", "/{path:.*}", self._answer)])
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.0
        )
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, "127.0.0.1", port or self.port)
        await self._site.start()
        self.port = self._runner.addresses[0][1]

    async def kill(self) -> None:
        """Go away as after SIGKILL: every connection breaks off."""
        if self._runner is not None and self._runner.server is not None:
            for connection in self._runner.server.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        await self._clean_up()

    async def terminate(self, *, linger_seconds: float = TERMINATION_LINGER_SECONDS) -> None:
        """Go away as after SIGTERM: refuse connections, keep watches open and quiet, end them."""
        if self._site is None:
            return
        await self._site.stop()
        self.blackhole_watches()
        await asyncio.sleep(linger_seconds)
        for watch in self.open_watches:
            watch.end()
        await self._watches_gone.wait()
        await self._clean_up()

    async def restart(self, *, revision_jump: int = 100) -> None:
        """Break every connection and come back on the same port without any history.

        Args:
            revision_jump: Revisions that other writers made meanwhile.
        """
        await self.kill()
        await self.come_back(revision_jump=revision_jump)

    async def come_back(self, *, revision_jump: int = 100) -> None:
        """Listen again on the same port, after `kill`, without any history; as `restart`."""
        self.objects.store.forget_history(jump=revision_jump)
        await self.start()

    def expire_history(self) -> None:
        """Forget the past: whoever resumes from an older revision is told 410."""
        self.objects.store.forget_history(jump=1)

    def blackhole_watches(self, *, plural: str = "") -> int:
        """Have the open watches (of one kind) say nothing more; returns how many."""
        chosen = [watch for watch in self._watches if plural in ("", watch.resource.plural)]
        for watch in chosen:
            watch.blackhole()
        return len(chosen)

    async def _clean_up(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = self._site = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not self.tokens.admits(request):
            refused = ApiError(401, "Unauthorized", reason="Unauthorized")
            return await self._audited(request, _error_response(refused))
        act = self.misbehaviour.act_on(request)
        match act:
            case None:
                pass
            case Refuse(code=code, retry_after_seconds=seconds):
                error = ApiError(code, "refused on request", retry_after_seconds=seconds)
                return await self._audited(request, _error_response(error))
            case Hang(seconds=seconds):
                await asyncio.sleep(seconds)
            case Drop(applied=applied):
                if applied:
                    await self._respond(request)
                return _cut(request)
            case _:
                assert_never(act)
        return await self._respond(request)

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        try:
            target = parse_target(request.path)
            if target is not None:
                self.audit.calls.add(_call(request, target))
                if request.method == "GET" and is_watch(request) and not target.name:
                    return await self._stream(request, target)
            response = await self._respond_once(request)
        except ApiError as error:
            response = _error_response(error)
        return await self._audited(request, response)

    async def _respond_once(self, request: web.Request) -> web.Response:
        document = discovery_document(request.path)
        if document is not None and request.method == "GET":
            return json_response(document)
        if request.path in _PROBES:
            return web.Response(text="ok")
        target = parse_target(request.path)
        if target is None:
            return web.Response(status=404, text="404 page not found\n")
        body = await read_body(request) if request.method not in _READS else None
        answer = await self._verbs.perform(request, target, body)
        if isinstance(answer, web.Response):
            return answer
        return json_response(answer, status=201 if request.method == "POST" else 200)

    async def _audited(self, request: web.Request, response: web.Response) -> web.Response:
        if request.method not in _READS:
            try:
                body = await read_body(request)
            except ApiError:
                body = None
            agent = request.headers.get("User-Agent", "")
            write = Write(agent, request.method, request.path_qs, body, response.status)
            self.audit.record(write)
        return response

    async def _stream(self, request: web.Request, target: Target) -> web.StreamResponse:
        watch = Watch(
            self.objects.store,
            target.resource,
            self._verbs.rendered(request, watch_request(request, target)),
            bookmark_interval_seconds=self._bookmark_interval_seconds,
        )
        self._watches.add(watch)
        self._watches_gone.clear()
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            response.enable_chunked_encoding()
            await response.prepare(request)
            async for line in watch.lines():
                await response.write(line)
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client went away; there is nobody to tell
        finally:
            self._watches.discard(watch)
            watch.close()
            if not self._watches:
                self._watches_gone.set()
        return response


def _call(request: web.Request, target: Target) -> Call:
    verb = verb_of(request.method, target, watch=is_watch(request))
    resource = "/".join(part for part in (target.resource.plural, target.subresource) if part)
    agent = request.headers.get("User-Agent", "")
    return Call(agent, verb, target.resource.group, resource, target.namespace)


def json_response(body: Any, *, status: int = 200) -> web.Response:
    """``body`` as JSON, without spaces."""
    text = json.dumps(body, separators=(",", ":"))
    return web.Response(body=text.encode(), status=status, content_type="application/json")


def _error_response(error: ApiError) -> web.Response:
    response = json_response(error.status, status=error.code)
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def _cut(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
