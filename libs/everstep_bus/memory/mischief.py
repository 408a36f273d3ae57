"""How badly the twin behaves, and the seeded dice that decide each time."""

import random
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Mischief:
    """Chances (0 to 1), each for one opportunity. All come true in real outages of NATS."""

    seed: int = 0
    delay_seconds: float = 0.0
    """Longest delay of a request, of its answer, and of a delivery."""
    refuse: float = 0.0
    """A write is not stored and its writer hears `TransientBusError`."""
    lose_reply: float = 0.0
    """A write is stored and its writer hears `TransientBusError` all the same."""
    duplicate: float = 0.0
    """A fact is stored twice, as after its deduplication window has passed."""
    redeliver: float = 0.0
    """An acknowledgement is lost: the message is delivered and handled again."""
    reorder: float = 0.0
    """A consumer is given the message after the next one first."""
    lose_notice: float = 0.0
    """A watch or a subscription is not told of a change; its next resync finds it."""
    lose_report: float = 0.0
    """A telemetry report is lost."""
    drop_connection: float = 0.0
    """The connection ends during the call (and comes back by itself)."""


CALM: Final = Mischief()


class Dice:
    """Random numbers from one seed, in the order in which they are asked for."""

    def __init__(self, mischief: Mischief) -> None:
        self.mischief = mischief
        self._random = random.Random(mischief.seed)  # noqa: S311  # a simulation, no secret

    def comes_true(self, chance: float) -> bool:
        """Whether something of this chance happens now; costs nothing where it never does."""
        return chance > 0 and self._random.random() < chance

    def delay_seconds(self) -> float:
        """How long a message is on its way."""
        longest = self.mischief.delay_seconds
        return self._random.uniform(0, longest) if longest > 0 else 0.0

    def jitter(self, seconds: float) -> float:
        """Between half and one and a half of ``seconds``."""
        return seconds * self._random.uniform(0.5, 1.5)

    def pick(self, count: int) -> int:
        """An index below ``count``."""
        return self._random.randrange(count)
