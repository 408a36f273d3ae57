"""Keep cancellations that a library swallows.

``asyncio.wait_for`` of Python 3.11 returns its result, or raises its error, when it is cancelled in
the moment in which that arrives, and nats-py awaits everything through it. A ``TaskGroup`` raises
its tasks' errors in place of a cancellation that comes at the same time. Unnoticed, the cancelled
task would go on: a service would not stop, a leader that lost its lease would act, or wait for ever
for work that has not heard that it is to end.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cancellable(over: type[Exception] = Exception) -> Iterator[None]:
    """Raise, at the end of the block, a cancellation that was requested in it and got lost.

    Args:
        over: Errors of the block that the cancellation goes before: those that would be borne, and
            the work gone on with. Any other is raised as it is.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    except over as error:
        if task.cancelling() > before:
            raise asyncio.CancelledError from error
        raise
    if task.cancelling() > before:
        raise asyncio.CancelledError
