"""A stream as nats-server keeps it: sequences, deduplication, one message a subject, a tail."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from everstep_contract.layout import Stream

from everstep_bus.errors import RevisionMismatchError
from everstep_bus.memory.signals import Changed
from everstep_bus.stored import Stored

MESSAGE_ID: Final = "Nats-Msg-Id"
MAX_TAIL: Final = 1024
"""Messages whose writing can be undone by `MemoryStream.lose_tail`."""


@dataclass(frozen=True)
class _Written:
    """What a write did, so that it can be undone."""

    stored: Stored
    replaced: Stored | None


class MemoryStream:
    """Messages in order of their sequence, which starts at 1."""

    def __init__(self, spec: Stream, clock: Callable[[], float]) -> None:
        self.spec = spec
        self.last_sequence = 0
        self.losses = 0
        self.changed = Changed()
        self._clock = clock
        self._messages: dict[int, Stored] = {}
        self._last: dict[str, Stored] = {}
        self._ids: dict[str, tuple[int, float]] = {}
        self._tail: deque[_Written] = deque(maxlen=MAX_TAIL)

    def append(
        self, subject: str, headers: Mapping[str, str], payload: bytes, *, expected: int | None
    ) -> int:
        """Store a message and return its sequence, or the first one's if it is a repeat.

        Raises:
            RevisionMismatchError: The subject's last sequence is not ``expected``.
        """
        known = self._known(headers.get(MESSAGE_ID))
        if known is not None:
            return known
        last = self._last.get(subject)
        if expected is not None and expected != (last.sequence if last else 0):
            raise RevisionMismatchError(key=subject, expected=expected)
        self.last_sequence += 1
        stored = Stored(self.last_sequence, subject, headers, payload)
        self._store(stored, last)
        self.changed.notify()
        return stored.sequence

    def last(self, subject: str) -> Stored | None:
        """The newest message of a subject."""
        return self._last.get(subject)

    def newest_per_subject(self) -> list[Stored]:
        """The newest message of every subject, in order of sequence."""
        return sorted(self._last.values(), key=lambda stored: stored.sequence)

    def after(self, sequence: int) -> Iterator[Stored]:
        """Messages of a higher sequence, in order."""
        for number in range(sequence + 1, self.last_sequence + 1):
            stored = self._messages.get(number)
            if stored is not None:
                yield stored

    def at(self, sequence: int) -> Stored | None:
        """The message of this sequence, if it is still there."""
        return self._messages.get(sequence)

    def lose_tail(self, count: int) -> None:
        """Undo the last ``count`` acknowledged writes, as a disk does that lost its cache."""
        for _ in range(min(count, len(self._tail))):
            self._undo(self._tail.pop())
        self._lost()

    def clear(self) -> None:
        """Lose everything, sequences too, as a memory stream does when its server ends."""
        self._messages.clear()
        self._last.clear()
        self._ids.clear()
        self._tail.clear()
        self.last_sequence = 0
        self._lost()

    def _lost(self) -> None:
        self.losses += 1
        self.changed.notify()

    def _known(self, message_id: str | None) -> int | None:
        if message_id is None or message_id not in self._ids:
            return None
        sequence, stored_at = self._ids[message_id]
        fresh = self._clock() - stored_at < self.spec.duplicate_window_seconds
        return sequence if fresh else None

    def _store(self, stored: Stored, last: Stored | None) -> None:
        replaced = last if self.spec.max_messages_per_subject == 1 else None
        if replaced is not None:
            del self._messages[replaced.sequence]
        self._messages[stored.sequence] = self._last[stored.subject] = stored
        message_id = stored.headers.get(MESSAGE_ID)
        if message_id is not None:
            self._ids[message_id] = (stored.sequence, self._clock())
        self._tail.append(_Written(stored, replaced))

    def _undo(self, written: _Written) -> None:
        stored, replaced = written.stored, written.replaced
        del self._messages[stored.sequence]
        self._ids.pop(stored.headers.get(MESSAGE_ID, ""), None)
        self.last_sequence = stored.sequence - 1
        before = replaced or self._before(stored)
        if before is None:
            del self._last[stored.subject]
            return
        self._messages[before.sequence] = self._last[stored.subject] = before

    def _before(self, stored: Stored) -> Stored | None:
        numbers = range(stored.sequence - 1, 0, -1)
        earlier = (self._messages.get(number) for number in numbers)
        return next((one for one in earlier if one and one.subject == stored.subject), None)
