"""Read files of a storage that may hang: each by a thread of its own, which can be left behind.

A read of a dead NFS server does not return, and nothing can interrupt it. So the thread that waits
for it is never waited for beyond a limit, and the file counts as unreadable.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from io import RawIOBase
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from everstep_checkpoint.errors import DamagedError
from everstep_checkpoint.media import Key, Medium

SILENCE_SECONDS: Final = 120.0
"""Twice what NFS over TCP waits before it asks again (60 s, `timeo` in nfs(5))."""
POLL_SECONDS: Final = 0.1
"""How often the caller is asked, while nothing comes, whether the load is still wanted."""
READ_AHEAD: Final = 2
"""Chunks that are read while one is worked on."""

_T = TypeVar("_T")
_Errand = tuple[Callable[[], Any], "Future[Any]"]


@dataclass(frozen=True)
class Watch:
    """Who looks on while a checkpoint is read.

    Attributes:
        guard: Called with the bytes read so far, after each chunk and several times a second; what
            it raises ends the load.
        silence_seconds: After which a file that gives nothing is unreadable.
    """

    guard: Callable[[int], None] = lambda read_bytes: None
    silence_seconds: float = SILENCE_SECONDS


NOBODY: Final = Watch()
"""Nobody looks on."""


class Errands:
    """A thread that waits for the storage in the caller's place, until `end`.

    Args:
        what: They are about.
        poll: Called while an answer is waited for.
        silence_seconds: That an errand may take.
    """

    def __init__(self, what: str, poll: Callable[[], None], silence_seconds: float) -> None:
        self._what = what
        self._poll = poll
        self._silence_seconds = silence_seconds
        self._queue: SimpleQueue[_Errand | None] = SimpleQueue()
        threading.Thread(
            target=_serve, args=(self._queue,), name="checkpoint-read", daemon=True
        ).start()

    def ask(self, call: Callable[[], _T]) -> "Future[_T]":
        """Have something done after all that was asked before."""
        done: Future[_T] = Future()
        self._queue.put((call, done))
        return done

    def wait(self, done: "Future[_T]") -> _T:
        """What came of it.

        Raises:
            DamagedError: The storage refused, or said nothing for too long.
        """
        polls = math.ceil(self._silence_seconds / POLL_SECONDS)  # a frozen process hears nothing
        while not wait([done], POLL_SECONDS).done:
            if not (polls := polls - 1) > 0:
                raise DamagedError(self._what, f"nothing came for {self._silence_seconds:g} s")
            self._poll()
        try:
            return done.result()
        except OSError as error:
            raise DamagedError(self._what, error.strerror or repr(error)) from error

    def do(self, call: Callable[[], _T]) -> _T:
        """What comes of it, waited for."""
        return self.wait(self.ask(call))

    def end(self) -> None:
        """Have the thread end after all that was asked."""
        self._queue.put(None)


class PatientFile:
    """A file that is read by a thread of its own; what goes wrong with it is damage.

    Args:
        place: Where it lies.
        key: And under which name.
        poll: Called while a read is waited for.
        silence_seconds: That a read may take.

    Raises:
        DamagedError: It cannot be opened, or not in time; of all methods, also: not be read.
    """

    def __init__(
        self, place: Medium, key: Key, poll: Callable[[], None], silence_seconds: float
    ) -> None:
        self._place = place
        self._key = key
        self._errands = Errands(place.where(key), poll, silence_seconds)
        try:
            self._file: RawIOBase = self._errands.do(lambda: place.open(key))
        except BaseException:
            self._errands.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._errands.ask(self._file.close)  # not waited for: it may hang as well
        self._errands.end()

    def total_bytes(self) -> int:
        """Of the file, as the storage tells."""
        return self._errands.do(lambda: self._place.size(self._key))

    def read(self, count: int) -> bytes:
        """The next bytes; fewer where the file ends."""
        buffer = bytearray(count)
        return bytes(buffer[: self._errands.do(partial(self._fill, memoryview(buffer)))])

    def stream(self, begin: int, runs: Iterable[memoryview]) -> Iterator[memoryview]:
        """Fill memory with the file from byte ``begin`` on, one run after the other.

        Args:
            begin: Of the file.
            runs: Taken READ_AHEAD before they are given back; a run that was given back may be
                passed again.

        Yields:
            The same runs, each as soon as it is full.

        Raises:
            DamagedError: The file ends too early.
        """
        self._errands.do(partial(self._file.seek, begin))
        coming: deque[tuple[memoryview, Future[int]]] = deque()
        for run in runs:
            coming.append((run, self._errands.ask(partial(self._fill, run))))
            if len(coming) > READ_AHEAD:
                yield self._next(coming)
        while coming:
            yield self._next(coming)

    def _next(self, coming: "deque[tuple[memoryview, Future[int]]]") -> memoryview:
        run, done = coming.popleft()
        if (count := self._errands.wait(done)) < len(run):
            where = self._place.where(self._key)
            raise DamagedError(where, f"it ends {len(run) - count} bytes too early")
        return run

    def _fill(self, run: memoryview) -> int:
        count = 0
        while count < len(run) and (more := self._file.readinto(run[count:])):
            count += more
        return count


def _serve(errands: "SimpleQueue[_Errand | None]") -> None:
    """Do what is asked, in order, until there is nothing more to do."""
    while (errand := errands.get()) is not None:
        call, done = errand
        try:
            done.set_result(call())
        except OSError as error:
            done.set_exception(error)
