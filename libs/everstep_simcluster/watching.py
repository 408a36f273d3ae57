"""Watches: a change of the store as the event that one watcher sees, and the stream of them."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from everstep_simcluster.api_errors import status_failure
from everstep_simcluster.listing import parse_version
from everstep_simcluster.resources import Object, Resource
from everstep_simcluster.selectors import EVERYTHING, Selection
from everstep_simcluster.store import Change, HistoryExpiredError, Store

QUEUE_LIMIT = 10_000
"""Events a watcher may lag behind before its stream is ended, as the real server ends it."""

LAST_BOOKMARK_SECONDS = 2.0
"""How long before its end a watch that asked for bookmarks is sent the last one."""

Render = Callable[[Resource, Object], Object]


@dataclass(frozen=True)
class WatchRequest:
    """What a watch asks for. ``timeout_seconds`` bounds its life."""

    namespace: str = ""
    selection: Selection = EVERYTHING
    resource_version: str = ""
    bookmarks: bool = False
    initial_events: bool = False
    timeout_seconds: float = 1800.0
    render: Render | None = None
    """Turns an object into what the client asked to see, a table for example."""


class Watch:
    """One open watch: hears the store from its creation on and yields encoded event lines.

    Raises:
        ApiError: The revision it is to begin from is malformed.
    """

    def __init__(
        self, store: Store, resource: Resource, request: WatchRequest, *,
        bookmark_interval_seconds: float = 60.0,
    ) -> None:  # fmt: skip
        self._store = store
        self.resource = resource
        self._request = request
        self._revision = parse_version(request.resource_version)
        self._bookmark_interval_seconds = bookmark_interval_seconds
        self._pending: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._ended = False
        self._stop_listening = store.listen(self._hear)
        self._deaf = self._revision > store.revision
        self.blackholed = False
        """Once set, nothing more is said, not even the end: only the client's patience helps."""

    def end(self) -> None:
        """Let the stream end cleanly, as at its timeout."""
        self._ended = True
        self._wake.set()

    def close(self) -> None:
        """Hear no more."""
        self._stop_listening()

    async def lines(self) -> AsyncIterator[bytes]:
        """Event lines until the timeout, an error event, too great a lag or :meth:`end`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._request.timeout_seconds
        for line in self._opening_lines():
            yield line
        bookmark_at = self._next_bookmark(loop.time(), deadline)
        while not self._ended and len(self._pending) <= QUEUE_LIMIT:
            while self._pending:
                event = self._line_for(self._pending.popleft())
                if event is not None:
                    yield event
            now = loop.time()
            if self.blackholed:
                await self._wait(None)
            elif now >= deadline:
                return
            elif now >= bookmark_at:
                yield self._bookmark()
                bookmark_at = self._next_bookmark(now, deadline)
            else:
                await self._wait(min(deadline, bookmark_at) - now)

    def blackhole(self) -> None:
        """Say nothing from now on, as when packets are lost: see ``blackholed``."""
        self.blackholed = True
        self._pending.clear()
        self._wake.set()

    async def _wait(self, seconds: float | None) -> None:
        self._wake.clear()
        if self._pending or self._ended:
            return
        try:
            async with asyncio.timeout(seconds):  # wait_for would lose a cancellation
                await self._wake.wait()
        except TimeoutError:
            return

    def _hear(self, change: Change) -> None:
        if change.resource is not self.resource or self.blackholed or self._deaf:
            return
        if self._request.namespace in ("", change.ref.namespace):
            self._pending.append(change)
            self._wake.set()

    def _opening_lines(self) -> Iterator[bytes]:
        """What comes before live changes: old changes, everything there is, or an error."""
        revision = self._revision
        from_scratch = revision == 0 or self._request.initial_events
        if self._deaf:
            return  # from the future, as after a restored backup: silent until the timeout
        if not from_scratch:
            try:
                changes = list(self._store.changes_since(revision))
            except HistoryExpiredError as error:
                yield self._encode("ERROR", status_failure(410, str(error), reason="Expired"))
                self.end()
                return
            self._pending.clear()
            for change in changes:
                self._hear(change)
            return
        self._pending.clear()
        for body in self._store.every(self.resource, self._request.namespace):
            if self._request.selection.matches(body):
                yield self._encode("ADDED", self._rendered(body))
        if self._request.initial_events and self._request.bookmarks:
            yield self._bookmark({"k8s.io/initial-events-end": "true"})

    def _line_for(self, change: Change) -> bytes | None:
        selection = self._request.selection
        before = change.previous is not None and selection.matches(change.previous)
        after = change.type != "DELETED" and selection.matches(change.object)
        if before and not after:
            kind, body = "DELETED", _last_seen(change)
        elif after:
            kind, body = ("MODIFIED" if before else "ADDED"), change.object
        else:
            return None
        if self._request.render is None and body is change.object:
            return b'{"type":"%s","object":%s}\n' % (kind.encode(), change.encoded)
        return self._encode(kind, self._rendered(body))

    def _rendered(self, body: Object) -> Object:
        render = self._request.render
        return body if render is None else render(self.resource, body)

    def _bookmark(self, annotations: Object | None = None) -> bytes:
        metadata: Object = {"resourceVersion": str(self._store.revision)}
        if annotations:
            metadata["annotations"] = annotations
        body = {
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version,
            "metadata": metadata,
        }
        return self._encode("BOOKMARK", body)

    def _next_bookmark(self, now: float, deadline: float) -> float:
        last = deadline - LAST_BOOKMARK_SECONDS
        if not self._request.bookmarks or self._deaf or now >= last:
            return float("inf")
        return min(now + self._bookmark_interval_seconds, last)

    @staticmethod
    def _encode(kind: str, body: Object) -> bytes:
        event = {"type": kind, "object": body}
        return json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _last_seen(change: Change) -> Object:
    """What a watcher sees of an object that is gone, or that left its selection.

    In the second case it is the state that was still selected, under the new revision.
    """
    if change.type == "DELETED" or change.previous is None:
        return change.object
    metadata = {**change.previous["metadata"], "resourceVersion": str(change.revision)}
    return {**change.previous, "metadata": metadata}
