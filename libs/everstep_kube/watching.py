"""Follows one kind of object: list, watch on, and list again when the watch cannot be trusted.

A watch may hang half-open, expire, be silent because the store went back, or end cleanly for any
reason. So each has an end on the server's side and a shorter patience on ours; before each the
store itself is asked for its version; and expiry, a store that went back, long silence or mere
time lead to a list that is compared with what was known. docs/kubernetes.md has the bounds.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Final, Generic, TypeVar

import structlog
from everstep_runtime.clock import Clock

from everstep_kube.client import Json, KubeClient, Request
from everstep_kube.errors import (
    AnswerError,
    AnswerTooLargeError,
    GoneError,
    NotFoundError,
    error_of,
)
from everstep_kube.followed import Followed, Name, WatchTiming, error_in, version_of
from everstep_kube.metrics import LISTS, RECONNECTS, SILENT, WENT_BACK, ReconnectReason
from everstep_kube.sightings import Absent, Heard, Known, Read, Sighting

PAGE_OBJECTS: Final = 100
"""One or two MB of nodes: parsed in some 20 ms, in which this process hears nothing else."""
LARGEST_PAGE_OBJECTS: Final = 8000
WATCH_TRIES: Final = 3
"""Failures in a row after which a list is taken: perhaps one event cannot be read."""
BUSY_LISTS: Final = 3
BUSY_WINDOW_SECONDS: Final = 60.0
FIRST_PAUSE_SECONDS: Final = 0.1
CHECKS_AT_ONCE: Final = 16

S = TypeVar("S")
log = structlog.get_logger()


class Follower(Generic[S]):
    """Tells what happens to one kind of object, without end and without losing anything.

    What it told counts as unknown while `is_stale`: the object may have changed, or be gone.
    """

    def __init__(
        self,
        client: KubeClient,
        followed: Followed,
        read: Read[S],
        clock: Clock,
        timing: WatchTiming | None = None,
    ) -> None:
        """``read`` makes of an object what is told of it; a state equal to the last is no news."""
        self.followed = followed
        self._client = client
        self._clock = clock
        self._timing = timing or WatchTiming()
        self._known = Known(followed.plural, read)
        self._version = ""
        self._newest_version = 0
        self._lists: list[float] = []
        self._list_ended_at = float("-inf")
        self._page_objects = PAGE_OBJECTS
        self._failures = 0
        self._caught_up = False
        self._proven = False
        self._proven_at = clock.monotonic()
        SILENT.labels(followed.plural).set_function(lambda: self.silent_seconds)

    @property
    def silent_seconds(self) -> float:
        """Seconds since the question that the server last answered."""
        return self._clock.monotonic() - self._proven_at

    @property
    def is_stale(self) -> bool:
        """Whether what was told counts as unknown: no first list yet, or no proof for too long."""
        return not self._proven or self.silent_seconds > self._timing.stale_seconds

    async def sightings(self) -> AsyncIterator[Sighting[S]]:
        """Everything there is, then each change, without end."""
        while True:
            try:
                async for sighting in self._round():
                    yield sighting
            except GoneError as error:
                self._version = ""
                self._complain("gone", error)
            except AnswerError as error:
                self._failures += 1
                self._caught_up = False
                self._complain(_why(error), error)
            await asyncio.sleep(self._pause_seconds())

    async def _round(self) -> AsyncIterator[Sighting[S]]:
        """One list, or one watch after a proof that it is worth watching from where we are."""
        if not self._list_is_due() and await self._store_went_on():
            if self._caught_up:
                yield Heard()
            source = self._watched()
        else:
            source = self._listed()
        async for sighting in source:
            yield sighting

    def _list_is_due(self) -> bool:
        """There is no version to go on from, or what is known is too old for trust."""
        last = self._lists[-1] if self._lists else 0.0
        too_long = self._clock.monotonic() - last >= self._timing.relist_seconds
        stuck = self._failures >= WATCH_TRIES
        return not self._version or too_long or stuck or self._is_overdue

    @property
    def _is_overdue(self) -> bool:
        """Whether nothing was proven for too long, and not only because the last list took long.

        A list of a large cluster may; a watch goes on from where it began, and another list would
        take as long.
        """
        since = max(self._proven_at, self._list_ended_at)
        too_long = self._clock.monotonic() - since > self._timing.stale_seconds
        return not self._proven or too_long

    async def _store_went_on(self) -> bool:
        """Ask the store itself, not a cache, for its version: not lower than what we have seen.

        A watch cannot tell: of a version that the store has not reached it says nothing at all,
        and an API server that has lost its store keeps the watches open.
        """
        asked_at = self._clock.monotonic()
        page = await self._client.call(Request("GET", self.followed.path, {"limit": "1"}))
        if version_of(page) < self._newest_version:
            return False
        self._newest_version = version_of(page)
        if self._caught_up:
            self._prove(asked_at)
        return True

    async def _listed(self) -> AsyncIterator[Sighting[S]]:
        """List what the store holds now, and tell the difference to what was known.

        Until it has been read to its end there is no version to watch from, and nothing is
        concluded from what it lacks: a list that fails half-way is begun anew.
        """
        asked_at = self._clock.monotonic()
        self._lists = [at for at in self._lists if asked_at - at < BUSY_WINDOW_SECONDS] + [asked_at]
        self._version = ""
        LISTS.labels(self.followed.plural).inc()
        seen: set[Name] = set()
        version, nameless = 0, 0
        async for page in self._pages():
            version = version or version_of(page)
            for item in page.get("items") or ():
                name = self._known.name_of(item)
                if name is None:
                    nameless += 1
                    continue
                seen.add(name)
                for news in self._known.take_in(name, item):
                    yield news
        if not nameless:  # else one of those that seem to be missing may be the nameless one
            async for gone in self._missing(seen):
                yield gone
        self._begin_at(version)
        self._list_ended_at = self._clock.monotonic()
        self._caught_up = self._list_ended_at - asked_at <= self._timing.server_seconds
        self._prove(asked_at)
        yield Heard()

    async def _pages(self) -> AsyncIterator[Json]:
        """A list page by page, as the store was at the first of them.

        When the store no longer holds that past, the answer offers to go on with the present;
        that would lose what changed in between, so we do not, but ask for larger pages.
        """
        query = {"limit": str(self._page_objects), "labelSelector": self.followed.selector}
        while True:
            try:
                page = await self._client.call(self._get(query))
            except GoneError:
                self._page_objects = min(self._page_objects * 4, LARGEST_PAGE_OBJECTS)
                raise
            except AnswerTooLargeError:
                self._page_objects = max(self._page_objects // 4, 1)
                raise
            yield page
            token = (page.get("metadata") or {}).get("continue")
            if not token:
                self._page_objects = PAGE_OBJECTS
                return
            query = {**query, "continue": str(token)}

    def _begin_at(self, version: int) -> None:
        """Watch from the version of a list's first page on."""
        if not version:
            raise error_of(f"list {self.followed.path}", 0, "a list without a version")
        if version < self._newest_version:
            WENT_BACK.labels(self.followed.plural).inc()
            log.error(
                "the cluster's store went back",
                path=self.followed.path,
                version=version,
                seen=self._newest_version,
            )
        self._newest_version = version
        self._version = str(version)

    async def _missing(self, seen: set[Name]) -> AsyncIterator[Absent[S]]:
        """Of what a list lacks, what is gone and did not only leave the selector."""
        missing = list(self._known.besides(seen).items())
        for start in range(0, len(missing), CHECKS_AT_ONCE):
            some = missing[start : start + CHECKS_AT_ONCE]
            checks = [self._is_gone(name, uid) for name, uid in some]
            answers = await asyncio.gather(*checks, return_exceptions=True)
            for (name, _), is_gone in zip(some, answers, strict=True):
                if isinstance(is_gone, BaseException):
                    raise is_gone
                if is_gone:
                    for absent in self._known.drop(name):
                        yield absent

    async def _watched(self) -> AsyncIterator[Sighting[S]]:
        """Watch on from the last version until the server ends it."""
        query = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._timing.server_seconds),
            "labelSelector": self.followed.selector,
        }
        patience = self._timing.silence_seconds
        async with aclosing(self._client.lines(self._get(query), seconds=patience)) as lines:
            async for line in lines:
                if self._is_overdue:
                    return  # it comes too late to be trusted: list first
                self._failures = 0
                async for sighting in self._event(line):
                    yield sighting
        self._caught_up = True

    async def _event(self, line: Json) -> AsyncIterator[Sighting[S]]:
        """What one event tells. Its version counts once all of that is told: a failure repeats."""
        kind, found = line.get("type"), line.get("object")
        if kind == "ERROR":
            raise error_in(found, self.followed.path)
        name = None if kind == "BOOKMARK" else self._known.name_of(found)
        if name is not None and isinstance(found, dict):
            if kind in ("ADDED", "MODIFIED"):
                for news in self._known.take_in(name, found):
                    yield news
            elif kind == "DELETED":
                uid = str(found["metadata"]["uid"])
                if self._known.uid_of(name) == uid and await self._is_gone(name, uid):
                    for absent in self._known.drop(name, found):
                        yield absent
        if version := version_of(found):
            self._newest_version = max(version, self._newest_version)
            self._version = str(version)

    async def _is_gone(self, name: Name, uid: str) -> bool:
        """Whether it no longer exists: leaving the selector looks the same as being deleted."""
        if not self.followed.selector:
            return True
        try:
            now = await self._client.call(Request("GET", self.followed.path_of(name)))
        except NotFoundError:
            return True
        return str((now.get("metadata") or {}).get("uid")) != uid

    def _prove(self, asked_at: float) -> None:
        """What was told by now is not older than ``asked_at``."""
        self._proven, self._proven_at, self._failures = True, asked_at, 0

    def _get(self, query: Mapping[str, str]) -> Request:
        given = {name: value for name, value in query.items() if value}
        return Request("GET", self.followed.path, given)

    def _complain(self, why: ReconnectReason, error: AnswerError) -> None:
        RECONNECTS.labels(why).inc()
        say = log.info if why == "gone" else log.warning
        if self._failures <= 1:
            say("watch broken", path=self.followed.path, why=why, error=str(error))

    def _pause_seconds(self) -> float:
        """Short after a clean end; growing with failures and with lists in quick succession."""
        since = self._clock.monotonic() - BUSY_WINDOW_SECONDS
        lists = sum(at > since for at in self._lists) - BUSY_LISTS
        if lists == 1 and not self._version:
            log.error("listing again and again", path=self.followed.path, lists=lists)
        trouble = max(self._failures, lists)
        pause = FIRST_PAUSE_SECONDS * 2.0 ** min(trouble, 16)
        return min(pause, self._timing.longest_pause_seconds) * random.uniform(0.5, 1.0)  # noqa: S311  # jitter


def _why(error: AnswerError) -> ReconnectReason:
    if error.status:
        return "refused"
    return "read_timeout" if isinstance(error.__cause__, TimeoutError) else "no_answer"
