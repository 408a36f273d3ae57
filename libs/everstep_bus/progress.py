"""How far a consumer got, so that a durable that was lost is made anew without a gap."""


class Progress:
    """What one process knows of its own deliveries of one durable consumer."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._highest_done: int | None = None

    def taken(self, sequence: int) -> None:
        """A message was delivered."""
        self._open.add(sequence)

    def done(self, sequence: int) -> None:
        """It was acknowledged, or is dead."""
        self._open.discard(sequence)
        self._highest_done = max(sequence, self._highest_done or 0)

    def forget(self) -> None:
        """The stream itself was lost: its sequences mean nothing any more."""
        self._open.clear()
        self._highest_done = 0

    @property
    def resume_after(self) -> int | None:
        """The last sequence before which all is done; None before the first delivery."""
        if self._open:
            return min(self._open) - 1
        return self._highest_done
