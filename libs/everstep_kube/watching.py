"""Follows one kind of object: list, watch on, and list again when the watch cannot be trusted.

A watch may hang half-open, expire, be silent because the store went back, or end cleanly for any
reason. So each has an end on the server's side and a shorter patience on ours, expiry leads to a
list that is compared with what was known, and from time to time a list is taken anyway.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from everstep_runtime.clock import Clock

from everstep_kube.client import Json, KubeClient, Request
from everstep_kube.errors import AnswerError, GoneError, NotFoundError, error_of
from everstep_kube.metrics import LISTS, RECONNECTS

PAGE_OBJECTS: Final = "500"
BUSY_LISTS: Final = 3
BUSY_WINDOW_SECONDS: Final = 60.0
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 30.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Followed:
    """Which objects: their collection's path, and a label selector for some of them."""

    path: str
    selector: str = ""

    @property
    def plural(self) -> str:
        """What they are called, e.g. ``pods``."""
        return self.path.rpartition("/")[2]

    def path_of(self, found: Json) -> str:
        """The path of one of them."""
        base, _, plural = self.path.rpartition("/")
        metadata = found["metadata"]
        namespace = metadata.get("namespace")
        if namespace and "/namespaces/" not in base:
            base = f"{base}/namespaces/{namespace}"
        return f"{base}/{plural}/{metadata['name']}"


@dataclass(frozen=True)
class WatchTiming:
    """Bounds in seconds. The server ends a watch before our patience with its silence ends."""

    server_seconds: int = 10
    silence_seconds: float = 13.0
    relist_seconds: float = 300.0


@dataclass(frozen=True)
class Present:
    """The object is there, new or changed."""

    object: Json


@dataclass(frozen=True)
class Absent:
    """The object of this uid is gone; this was its last known state."""

    object: Json


@dataclass(frozen=True)
class Heard:
    """The server answered to the end: nothing that it knows of is outstanding."""


Sighting = Present | Absent | Heard


class Follower:
    """Tells what happens to one kind of object, without end and without losing anything."""

    def __init__(
        self,
        client: KubeClient,
        followed: Followed,
        clock: Clock,
        timing: WatchTiming | None = None,
    ) -> None:
        self._client = client
        self.followed = followed
        self._clock = clock
        self._timing = timing or WatchTiming()
        self._known: dict[str, Json] = {}
        self._version = ""
        self._newest_version = 0
        self._lists: list[float] = []
        self._failures = 0

    async def sightings(self) -> AsyncIterator[Sighting]:
        """Everything there is, then each change."""
        while True:
            try:
                source = self._listed() if self._list_is_due() else self._watched()
                async for sighting in source:
                    self._failures = 0
                    yield sighting
            except GoneError as error:
                self._version = ""
                self._complain("gone", error)
            except AnswerError as error:
                self._failures += 1
                self._complain("no_answer" if error.status == 0 else "refused", error)
            await asyncio.sleep(self._pause_seconds())

    def _list_is_due(self) -> bool:
        last = self._lists[-1] if self._lists else 0.0
        return not self._version or (self._clock.monotonic() - last >= self._timing.relist_seconds)

    async def _listed(self) -> AsyncIterator[Sighting]:
        """List, without a version so that it is what the store holds now; tell the difference."""
        now = self._clock.monotonic()
        self._lists = [at for at in self._lists if now - at < BUSY_WINDOW_SECONDS] + [now]
        LISTS.labels(self.followed.plural).inc()
        query = {"limit": PAGE_OBJECTS, "labelSelector": self.followed.selector}
        present: dict[str, Json] = {}
        while True:
            page = await self._client.call(self._get(query))
            present |= {item["metadata"]["uid"]: item for item in page.get("items") or ()}
            metadata = page.get("metadata") or {}
            if not metadata.get("continue"):
                break
            query = {**query, "continue": metadata["continue"]}
        for uid, missed in [pair for pair in self._known.items() if pair[0] not in present]:
            if await self._is_gone(missed):
                yield Absent(missed)
            self._known.pop(uid, None)
        for item in present.values():
            if self._take_in(item):
                yield Present(item)
        self._note_version(metadata["resourceVersion"], listed=True)
        yield Heard()

    async def _watched(self) -> AsyncIterator[Sighting]:
        """Watch on from the last version until the server ends it."""
        query = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(self._timing.server_seconds),
            "labelSelector": self.followed.selector,
        }
        silence = self._timing.silence_seconds
        async with self._client.lines(self._get(query), read_seconds=silence) as lines:
            async for line in lines:
                async for sighting in self._event(line):
                    yield sighting
        yield Heard()

    async def _event(self, line: Json) -> AsyncIterator[Sighting]:
        kind, found = line.get("type"), line["object"]
        if kind == "ERROR":
            code = int(found.get("code") or 0)
            raise error_of(f"watch {self.followed.path}", code, str(found.get("message")))
        self._note_version(found["metadata"]["resourceVersion"], listed=False)
        if kind == "DELETED":
            self._known.pop(found["metadata"]["uid"], None)
            if await self._is_gone(found):
                yield Absent(found)
        elif kind in ("ADDED", "MODIFIED") and self._take_in(found):
            yield Present(found)
        else:
            yield Heard()

    def _take_in(self, found: Json) -> bool:
        """Remember an object; whether it is news."""
        metadata = found["metadata"]
        before = self._known.get(metadata["uid"])
        self._known[metadata["uid"]] = found
        return before is None or (
            before["metadata"]["resourceVersion"] != metadata["resourceVersion"]
        )

    async def _is_gone(self, last: Json) -> bool:
        """Whether it no longer exists: leaving the selector looks the same as being deleted."""
        if not self.followed.selector:
            return True
        try:
            now = await self._client.call(Request("GET", self.followed.path_of(last)))
        except NotFoundError:
            return True
        return bool(now["metadata"]["uid"] != last["metadata"]["uid"])

    def _note_version(self, version: str, *, listed: bool) -> None:
        number = int(version) if version.isdigit() else 0
        if listed and number < self._newest_version:
            log.error(
                "the cluster's store went back",
                path=self.followed.path,
                version=number,
                seen=self._newest_version,
            )
        self._newest_version = number if listed else max(number, self._newest_version)
        self._version = version

    def _get(self, query: Mapping[str, str]) -> Request:
        given = {name: value for name, value in query.items() if value}
        return Request("GET", self.followed.path, given)

    def _complain(self, why: str, error: AnswerError) -> None:
        RECONNECTS.labels(why).inc()
        say = log.info if why == "gone" else log.warning
        if self._failures <= 1:
            say("watch broken", path=self.followed.path, why=why, error=str(error))

    def _pause_seconds(self) -> float:
        """Short after a clean end; growing with failures and with lists in quick succession."""
        since = self._clock.monotonic() - BUSY_WINDOW_SECONDS
        lists = sum(at > since for at in self._lists) - BUSY_LISTS
        if lists > 0 and not self._version:
            log.warning("listing again and again", path=self.followed.path, lists=lists)
        trouble = max(self._failures, 0 if self._version else lists)
        pause = FIRST_PAUSE_SECONDS * 2.0**trouble
        return min(pause, LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)  # noqa: S311  # jitter
