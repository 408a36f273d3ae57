"""The cluster's memory: every object, one revision counter and a bounded history of changes."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from everstep_simcluster.resources import Object, Resource

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class Ref(NamedTuple):
    """Where an object lies; cluster-scoped ones have the empty namespace."""

    namespace: str
    name: str


@dataclass(frozen=True, eq=False)
class Change:
    """One committed write: what was there before, what is there after, and its revision."""

    type: ChangeType
    revision: int
    resource: Resource
    object: Object
    previous: Object | None

    @property
    def ref(self) -> Ref:
        """The object this is about."""
        return ref_of(self.object)

    @cached_property
    def encoded(self) -> bytes:
        """The object as JSON, encoded once for however many watchers there are."""
        return json.dumps(self.object, separators=(",", ":")).encode()


def ref_of(body: Object) -> Ref:
    """Where ``body`` belongs, read from its metadata."""
    metadata = body["metadata"]
    return Ref(metadata.get("namespace", ""), metadata["name"])


@dataclass(frozen=True)
class Backup:
    """The objects that there were at one revision."""

    revision: int
    objects: Mapping[Resource, Mapping[Ref, Object]]


class HistoryExpiredError(Exception):
    """The revision asked for is older than the history that is kept."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {revision} ({oldest})")
        self.revision = revision
        self.oldest = oldest


class Store:
    """Objects by kind and place. All of it belongs to one event loop; nothing here waits.

    A committed object is shared by everybody and must not be changed in place. Listeners are
    called in the order of commits, before the write returns, and must not write themselves.
    """

    def __init__(self, *, first_revision: int = 1, history_limit: int = 10_000) -> None:
        self.revision = first_revision
        self._objects: dict[Resource, dict[Ref, Object]] = {}
        self._history: deque[Change] = deque()
        self._history_limit = history_limit
        self._oldest_revision = 0
        self._listeners: list[Callable[[Change], None]] = []

    @property
    def oldest_revision(self) -> int:
        """The lowest revision from which changes can still be told."""
        return self._oldest_revision

    def listen(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``listener`` with every change from now on; returns how to stop it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def get(self, resource: Resource, ref: Ref) -> Object | None:
        """The object, or None. Not a copy."""
        return self._objects.get(resource, {}).get(ref)

    def every(self, resource: Resource, namespace: str = "") -> list[Object]:
        """Objects in the order of namespace and name; the empty namespace means all."""
        kept = self._objects.get(resource, {})
        return [kept[ref] for ref in sorted(kept) if not namespace or ref.namespace == namespace]

    def insert(self, resource: Resource, body: Object) -> Object:
        """Commit a new object. The caller has made sure that its place is free."""
        return self._commit("ADDED", resource, body, None)

    def replace(self, resource: Resource, body: Object) -> Object:
        """Commit a new state of an object that is there."""
        return self._commit("MODIFIED", resource, body, self._objects[resource][ref_of(body)])

    def remove(self, resource: Resource, ref: Ref) -> Object:
        """Commit the end of an object that is there; returns its last state."""
        previous = self._objects[resource][ref]
        return self._commit("DELETED", resource, previous, previous)

    def changes_since(self, revision: int) -> Iterator[Change]:
        """Changes after ``revision``, oldest first.

        Raises:
            HistoryExpiredError: Some of them are no longer kept.
        """
        if revision < self._oldest_revision:
            raise HistoryExpiredError(revision, self._oldest_revision)
        return (change for change in tuple(self._history) if change.revision > revision)

    def list_at(self, resource: Resource, namespace: str, revision: int) -> list[Object]:
        """What :meth:`every` answered at ``revision``, by undoing the changes made since.

        Raises:
            HistoryExpiredError: The history does not reach back that far.
        """
        kept = dict(self._objects.get(resource, {}))
        for change in reversed(list(self.changes_since(revision))):
            if change.resource is not resource:
                continue
            if change.previous is None:
                del kept[change.ref]
            else:
                kept[change.ref] = change.previous
        return [kept[ref] for ref in sorted(kept) if not namespace or ref.namespace == namespace]

    def backup(self) -> Backup:
        """Everything as it is now."""
        kept = {resource: dict(bodies) for resource, bodies in self._objects.items()}
        return Backup(self.revision, kept)

    def restore(self, backup: Backup) -> None:
        """Be as at the backup, and as old: what came after it never was, and nobody is told.

        The API server has to be killed before and started after it, as it holds its own view.
        """
        self._objects = {resource: dict(bodies) for resource, bodies in backup.objects.items()}
        self.revision = backup.revision
        self.forget_history()

    def forget_history(self, *, jump: int = 0) -> None:
        """Keep no change from before now; first move the revision on by ``jump``."""
        self.revision += jump
        self._history.clear()
        self._oldest_revision = self.revision

    def _commit(
        self, kind: ChangeType, resource: Resource, body: Object, previous: Object | None
    ) -> Object:
        self.revision += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.revision)}
        body = {**body, "metadata": metadata}
        kept = self._objects.setdefault(resource, {})
        if kind == "DELETED":
            del kept[ref_of(body)]
        else:
            kept[ref_of(body)] = body
        change = Change(kind, self.revision, resource, body, previous)
        self._history.append(change)
        if len(self._history) > self._history_limit:
            self._oldest_revision = self._history.popleft().revision
        for listener in tuple(self._listeners):
            listener(change)
        return body
