"""A process that dies between two operations on storage, played in this one."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

OPERATIONS = ("open", "write", "fsync", "rename", "unlink", "rmdir", "mkdir")


class DiedError(BaseException):
    """Nothing that was written to catch errors catches this one."""


@contextmanager
def dying(after_operations: int | None) -> Iterator[list[str]]:
    """The block may do so many operations on files; None: as many as it likes.

    The dead do nothing: once it has died, whatever the block does to clean up does not happen.
    Yields the operations that were done.
    """
    done: list[str] = []

    def mortal(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def operate(*arguments: Any, **named: Any) -> Any:
            if len(done) == after_operations:
                raise DiedError
            done.append(name)
            return real(*arguments, **named)

        return operate

    real = {name: getattr(os, name) for name in OPERATIONS}
    try:
        for name, function in real.items():
            setattr(os, name, mortal(name, function))
        yield done
    except DiedError:
        pass
    finally:
        for name, function in real.items():
            setattr(os, name, function)
