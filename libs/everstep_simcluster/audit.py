"""The record of requests, so that a test can say who changed what and when, and who may do what."""

import re
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

AUDIT_LIMIT = 20_000
"""Writes remembered; older ones are dropped."""


@dataclass(frozen=True)
class Write:
    """One write request as it came in, and the HTTP status it got."""

    user_agent: str
    method: str
    path: str
    body: Any
    status: int
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    monotonic_seconds: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class Call:
    """What a role has to allow for a request to pass, reads too.

    ``namespace`` is empty for a call about the whole cluster; ``resource`` is ``pods`` or, with a
    subresource, ``pods/eviction``.
    """

    user_agent: str
    verb: str
    group: str
    resource: str
    namespace: str


class Audit:
    """Write requests in the order in which they were answered, and every kind of call there was."""

    def __init__(self) -> None:
        self._writes: deque[Write] = deque(maxlen=AUDIT_LIMIT)
        self.calls: set[Call] = set()

    def __iter__(self) -> Iterator[Write]:
        return iter(tuple(self._writes))

    def __len__(self) -> int:
        return len(self._writes)

    def record(self, write: Write) -> None:
        """Remember one."""
        self._writes.append(write)

    def matching(self, *, method: str = "", path: str = "", user_agent: str = "") -> list[Write]:
        """Writes by method and by regular expressions found in path and user agent."""
        return [
            write
            for write in self
            if method in ("", write.method)
            and re.search(path, write.path)
            and re.search(user_agent, write.user_agent)
        ]
