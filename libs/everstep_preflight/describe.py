"""A correction in words and YAML, one line a change."""

from collections.abc import Iterator
from typing import assert_never

from everstep_preflight.layout import flow_text
from everstep_preflight.located import show_path
from everstep_preflight.model import (
    Append,
    Change,
    Finding,
    Remove,
    RemoveDocument,
    ReplaceWords,
    SetValue,
)


def describe(finding: Finding) -> Iterator[str]:
    """What to change, or what a person has to decide."""
    if finding.fix:
        yield from (_describe(change) for change in finding.fix)
    elif finding.advice:
        yield finding.advice


def _describe(change: Change) -> str:
    path = show_path(change.target.path)
    match change:
        case SetValue(value=value):
            return f"{path}: {flow_text(value)}"
        case Append(value=value):
            return f"{path}: add {flow_text(value)}"
        case Remove():
            return f"remove {path}"
        case ReplaceWords(old=old, new=new):
            return f"in {path} write {new} instead of {old}"
        case RemoveDocument():
            return "remove this document"
        case _:
            assert_never(change)
