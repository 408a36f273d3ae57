"""A durable consumer: what is delivered next, what is unacknowledged, and when it comes again."""

import math
from dataclasses import dataclass

from everstep_contract.layout import Consumer

from everstep_bus.delivery import Delivery
from everstep_bus.memory.filters import admits
from everstep_bus.memory.mischief import Dice
from everstep_bus.memory.stream import MemoryStream
from everstep_bus.stored import Stored


@dataclass
class _Pending:
    attempts: int
    due: float
    """When it is delivered again; infinite while its handler runs and extends the deadline."""


class MemoryConsumer:
    """The server's side of one durable consumer, shared by all who consume it."""

    def __init__(self, spec: Consumer, start: int, dice: Dice) -> None:
        self.spec = spec
        self._dice = dice
        self._cursor = start
        self._pending: dict[int, _Pending] = {}

    def take(self, stream: MemoryStream, now: float) -> Delivery | None:
        """The next delivery, or None while there is none."""
        due = [sequence for sequence, one in self._pending.items() if one.due <= now]
        sequence = min(due) if due else self._advance(stream, now)
        if sequence is None:
            return None
        pending = self._pending[sequence]
        stored = stream.at(sequence)
        if stored is None:
            del self._pending[sequence]
            return self.take(stream, now)
        pending.attempts += 1
        pending.due = math.inf
        return Delivery(stored.subject, stored.headers, stored.payload, sequence, pending.attempts)

    def next_due(self) -> float:
        """When something unacknowledged comes again; infinite if nothing does."""
        return min((one.due for one in self._pending.values()), default=math.inf)

    def acknowledge(self, sequence: int) -> None:
        """Never deliver it again."""
        self._pending.pop(sequence, None)

    def deliver_again(self, sequence: int, due: float) -> None:
        """Deliver it once more, not before ``due``."""
        if sequence in self._pending:
            self._pending[sequence].due = due

    def lose_acknowledgement(self, sequence: int, now: float) -> None:
        """Deliver it again at once although it was handled, unless that would exhaust it."""
        if (
            sequence in self._pending
            and self._pending[sequence].attempts < self.spec.max_deliveries
        ):
            self.deliver_again(sequence, now)
        else:
            self.acknowledge(sequence)

    def _advance(self, stream: MemoryStream, now: float) -> int | None:
        new = (stored for stored in stream.after(self._cursor) if self._wants(stored))
        first = next(new, None)
        if first is None:
            self._cursor = stream.last_sequence
            return None
        self._cursor = first.sequence
        self._pending[first.sequence] = _Pending(0, now)
        if self._dice.comes_true(self._dice.mischief.reorder):
            second = next(new, None)
            if second is not None:
                self._cursor = second.sequence
                self._pending[second.sequence] = _Pending(0, now)
                return second.sequence
        return first.sequence

    def _wants(self, stored: Stored) -> bool:
        return any(admits(wanted, stored.subject) for wanted in self.spec.filters)

    def follow(self, last_sequence: int) -> None:
        """Not be ahead of a stream that lost its tail: its new messages would be skipped."""
        self._cursor = min(self._cursor, last_sequence)
        for sequence in [one for one in self._pending if one > last_sequence]:
            del self._pending[sequence]
