"""Keep cancellations that a library swallows.

``asyncio.wait_for`` of Python 3.11 returns its result when it is cancelled in the moment in which
the result arrives, and nats-py awaits everything through it. Unnoticed, the cancelled task would
go on: a service would not stop, a leader that lost its lease would act.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancellable() -> Iterator[None]:
    """Raise, at the end of the block, a cancellation that was requested in it and got lost."""
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    yield
    if task.cancelling() > before:
        raise asyncio.CancelledError
