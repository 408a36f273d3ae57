"""A change, made to plain data: what the text must say once it is changed too."""

from copy import deepcopy
from typing import Any, assert_never

from everstep_preflight.located import Path
from everstep_preflight.model import (
    Append,
    Change,
    Remove,
    RemoveDocument,
    ReplaceWords,
    SetValue,
)

NOTHING = object()
"""Stands for a document that is gone."""


def changed(document: Any, change: Change) -> Any:
    """A copy of ``document`` with the change made; ``NOTHING`` where it is gone.

    Raises:
        LookupError: The document has no such place.
        TypeError: Something else stands there.
    """
    result = _written_out(document)
    path = change.target.path
    match change:
        case SetValue(value=value):
            parent = _at(result, path[:-1], make={})
            parent[path[-1]] = deepcopy(value)
        case Append(value=value):
            _at(result, path, make=[]).append(deepcopy(value))
        case Remove():
            _remove(result, path)
        case ReplaceWords(old=old, new=new):
            parent = _at(result, path[:-1])
            if parent[path[-1]].count(old) != 1:
                raise LookupError(f"{old!r} does not stand there once")
            parent[path[-1]] = parent[path[-1]].replace(old, new)
        case RemoveDocument():
            return NOTHING
        case _:
            assert_never(change)
    return result


def _written_out(value: Any) -> Any:
    """A copy in which nothing is shared: an alias means its own copy of what it refers to."""
    if isinstance(value, dict):
        return {key: _written_out(below) for key, below in value.items()}
    return [_written_out(below) for below in value] if isinstance(value, list) else value


def narrowed(document: Any, path: Path) -> Path:
    """What really goes when ``path`` is removed: with a list's only item the list itself."""
    while isinstance(path[-1], int) and len(path) > 1 and len(_at(document, path[:-1])) == 1:
        path = path[:-1]
    return path


def _remove(document: Any, path: Path) -> None:
    path = narrowed(document, path)
    del _at(document, path[:-1])[path[-1]]


def _at(document: Any, path: Path, make: Any = None) -> Any:
    """The value at ``path``; with ``make`` its last part is made where it is absent or empty."""
    found = document
    for depth, part in enumerate(path, 1):
        if make is not None and isinstance(found, dict) and found.get(part) is None:
            found[part] = deepcopy(make) if depth == len(path) else {}
        found = found[part]
    return found
