"""How new the state of a process is, right whichever line of the loop was interrupted (R22)."""

from collections import Counter
from typing import Final

NOT_WHOLE: Final = -1
"""The version of a state that is no step's: some of it was changed and some was not."""


class StepCount:
    """Counts the optimizer steps that are in the state. Knows no tensor; told by hooks.

    The state has version ``base`` until an optimizer steps, and ``base + 1`` once each has stepped
    exactly once, whether or not the script came as far as to say that the step is completed. In
    between, inside an optimizer's step, or after a second step of one of them, it is not whole.
    An optimizer that leaves a turn out (a skipped step of a gradient scaler) is no defect: the
    script's word that the step is completed counts as well.
    """

    def __init__(self, version: int = NOT_WHOLE) -> None:
        self._base = version
        self._optimizers: frozenset[str] = frozenset()
        self._inside: set[str] = set()
        self._stepped: Counter[str] = Counter()

    @property
    def version(self) -> int:
        """Completed optimizer steps in the state; -1 if it is not whole."""
        if self._inside:
            return NOT_WHOLE
        if not self._stepped:
            return self._base
        once = set(self._stepped.values()) == {1} and self._stepped.keys() == self._optimizers
        return self._base + 1 if once else NOT_WHOLE

    @property
    def base(self) -> int:
        """The version that the running turn began with."""
        return self._base

    @property
    def touched(self) -> bool:
        """Whether an optimizer has begun to change the state since the turn began."""
        return bool(self._inside or self._stepped)

    def start(self, version: int, optimizers: frozenset[str]) -> None:
        """The state is at ``version``, and these optimizers will change it."""
        self._base, self._optimizers = version, optimizers
        self._inside, self._stepped = set(), Counter()

    def stepping(self, optimizer: str) -> None:
        """An optimizer begins its step."""
        self._inside.add(optimizer)

    def stepped(self, optimizer: str) -> None:
        """An optimizer has ended its step."""
        self._inside.discard(optimizer)
        self._stepped[optimizer] += 1

    def complete(self) -> None:
        """The turn is over: whatever stepped, or did not, belongs to the next version."""
        self.start(self._base + 1, self._optimizers)

    def settle(self) -> None:
        """The turn was interrupted: the state stays at what it is."""
        self.start(self.version, self._optimizers)
