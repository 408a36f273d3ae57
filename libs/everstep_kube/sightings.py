"""What a follower tells, and what it keeps so that it tells each change once.

Of an object it keeps what `read` made of it and nothing else: a node is 10 to 20 kB of JSON, and
there may be 50,000.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from everstep_kube.client import Json
from everstep_kube.followed import Name
from everstep_kube.loose import UNREADABLE_ERRORS
from everstep_kube.metrics import UNREADABLE

S = TypeVar("S")
Read = Callable[[Json], S | None]
"""Makes a comparable state of an object; None when the object is none of ours."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Present(Generic[S]):
    """The object is there; this state of it is new."""

    state: S


@dataclass(frozen=True)
class Absent(Generic[S]):
    """The object is gone for good (its uid will not come back); this was its last known state."""

    state: S


@dataclass(frozen=True)
class Heard:
    """The API server was asked and answered: what was told is not older than that question."""


Sighting = Present[S] | Absent[S] | Heard


@dataclass(slots=True)
class _Entry(Generic[S]):
    """``state`` None: of no interest so far, or it could not be read."""

    uid: str
    state: S | None = None
    unreadable: bool = False


class Known(Generic[S]):
    """All objects of one kind that are there, by name: no two have one name at a time."""

    def __init__(self, plural: str, read: Read[S]) -> None:
        self._plural = plural
        self._read = read
        self._entries: dict[Name, _Entry[S]] = {}
        self._complained_of_nameless = False

    def name_of(self, found: Any) -> Name | None:
        """Its name; None, and counted, for what has no name or no uid and cannot be followed."""
        metadata = found.get("metadata") if isinstance(found, dict) else None
        if isinstance(metadata, dict) and metadata.get("name") and metadata.get("uid"):
            return Name(str(metadata.get("namespace") or ""), str(metadata["name"]))
        UNREADABLE.labels(self._plural).inc()
        if not self._complained_of_nameless:
            self._complained_of_nameless = True
            log.error("object without a name", plural=self._plural, found=str(found)[:200])
        return None

    def take_in(self, name: Name, found: Json) -> Iterator[Present[S] | Absent[S]]:
        """What is new with this newest state of an object, if anything is.

        An object that can no longer be read, or no longer interests, keeps the state last told:
        it is still there, and its end will be told.
        """
        uid = str(found["metadata"]["uid"])
        entry = self._entries.get(name)
        if entry is None or entry.uid != uid:
            yield from self.drop(name)
            entry = self._entries[name] = _Entry(uid)
        state = self._state_of(name, entry, found)
        if state is not None and state != entry.state:
            entry.state = state
            yield Present(state)

    def drop(self, name: Name, last: Json | None = None) -> Iterator[Absent[S]]:
        """The object of this name is gone; ``last`` is what it was when it was deleted."""
        entry = self._entries.pop(name, None)
        if entry is None or entry.state is None:
            return
        state = self._state_of(name, entry, last) if last is not None else None
        yield Absent(entry.state if state is None else state)

    def uid_of(self, name: Name) -> str | None:
        """The uid of the object of that name, None if there is none."""
        entry = self._entries.get(name)
        return entry.uid if entry else None

    def besides(self, seen: Set[Name]) -> Mapping[Name, str]:
        """Names and uids of all objects whose names are not among those ``seen``."""
        return {name: entry.uid for name, entry in self._entries.items() if name not in seen}

    def _state_of(self, name: Name, entry: _Entry[S], found: Json) -> S | None:
        try:
            state = self._read(found)
        except UNREADABLE_ERRORS as error:
            UNREADABLE.labels(self._plural).inc()
            if not entry.unreadable:
                log.error("object not readable", plural=self._plural, name=name, error=repr(error))
            entry.unreadable = True
            return None
        entry.unreadable = False
        return state
