"""A change, made to a text: only the lines it concerns, so comments and order stay as they are.

Each edit is proven: the new text is parsed, and must say what the change says, and nothing else.
What cannot be done like that (an anchor that other fields share, say) is left to a person.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, assert_never

import yaml

from everstep_preflight.changing import NOTHING, changed, narrowed
from everstep_preflight.errors import UnreadableError
from everstep_preflight.layout import (
    Span,
    end_of_value,
    entries_of,
    find,
    flow_text,
    indented,
    index_of,
    is_flow,
    line_end,
    line_start,
    newline_of,
    pair_of,
)
from everstep_preflight.loading import documents
from everstep_preflight.located import Path
from everstep_preflight.model import (
    Append,
    Change,
    Remove,
    RemoveDocument,
    ReplaceWords,
    SetValue,
)
from everstep_preflight.reading import Source, read

_IMPOSSIBLE: Final = (LookupError, TypeError, AttributeError, ValueError, RecursionError)


def edited(source: Source, changes: Sequence[Change]) -> Source | None:
    """``source`` with all ``changes`` made, or None where one cannot be made."""
    for change in changes:
        after = _edited(source, change)
        if after is None:
            return None
        source = after
    return source


def _edited(source: Source, change: Change) -> Source | None:
    try:
        expected = list(source.data)
        after = changed(expected[change.target.document], change)
        if after is NOTHING:
            del expected[change.target.document]
        else:
            expected[change.target.document] = after
        result = read(source.file, _Editor(source, change.target.document).made(change))
        same = [found for found in result.data if found is not None] == [
            wanted for wanted in expected if wanted is not None
        ]
    except (*_IMPOSSIBLE, UnreadableError):
        return None
    return result if same else None


class _Editor:
    """One edit of one document of a text."""

    def __init__(self, source: Source, document: int) -> None:
        self._text = source.text
        self._newline = newline_of(source.text)
        self._document = document
        self._root = documents(source.text)[document]
        self._data = source.data[document]

    def made(self, change: Change) -> str:
        """The text with ``change`` made; a wrong one where it cannot be."""
        match change:
            case SetValue():
                return self._set(change)
            case Append():
                return self._append(change)
            case Remove():
                return self._remove(change)
            case ReplaceWords(old=old, new=new):
                return self._replace_words(change.target.path, old, new)
            case RemoveDocument():
                return self._remove_document()
            case _:
                assert_never(change)

    def _set(self, change: SetValue) -> str:
        *above, last = change.target.path
        parent = find(self._root, tuple(above))
        if parent is None or _is_empty(parent):
            outer = replace(change.target, path=tuple(above))
            return self._set(replace(change, target=outer, value={last: change.value}))
        present = pair_of(parent, last)
        if present is None and is_flow(parent):
            return self._insert_in_flow(parent, {last: change.value})
        if present is None:
            neighbour = pair_of(parent, change.after) or parent.value[-1]
            lines = indented({last: change.value}, parent.start_mark.column)
            return self._insert(end_of_value(neighbour[1]), lines)
        key, value = present
        start = value.start_mark.index
        if isinstance(value, yaml.CollectionNode) and not is_flow(value):
            start = self._text.index(":", key.end_mark.index) + 1  # up to the line of its key
        return self._put(Span(start, end_of_value(value)), change.value)

    def _put(self, span: Span, value: Any) -> str:
        gap = " " if self._text[span.start - 1] == ":" else ""
        return self._text[: span.start] + gap + self._flow(value) + self._text[span.end :]

    def _append(self, change: Append) -> str:
        found = find(self._root, change.target.path)
        if found is None or _is_empty(found):
            return self._set(SetValue(change.target, [change.value]))
        if is_flow(found):
            return self._insert_in_flow(found, [change.value])
        lines = indented([change.value], found.start_mark.column)
        return self._insert(end_of_value(found.value[-1]), lines)

    def _insert(self, end: int, lines: str) -> str:
        here = line_end(self._text, end)
        before = self._text[:here]
        if not before.endswith("\n"):
            before += self._newline
        return before + lines.replace("\n", self._newline) + self._text[here:]

    def _remove(self, change: Remove) -> str:
        *above, last = narrowed(self._data, change.target.path)
        parent = find(self._root, tuple(above))
        assert parent is not None
        if is_flow(parent):
            return self._remove_from_flow(parent, last)
        if isinstance(parent, yaml.SequenceNode):
            item = parent.value[last]
            return self._cut(item.start_mark.index, end_of_value(item))
        key, value = pair_of(parent, last) or parent.value[-1]
        start = key.start_mark.index
        following = [other for other, _ in parent.value if other.start_mark.index > start]
        shares_line = self._text[line_start(self._text, start) : start].strip()
        if shares_line and following:  # behind the dash of an item: what follows moves up there
            return self._text[:start] + self._text[following[0].start_mark.index :]
        return self._cut(start, end_of_value(value))

    def _cut(self, start: int, end: int) -> str:
        return self._text[: line_start(self._text, start)] + self._text[line_end(self._text, end) :]

    def _insert_in_flow(self, parent: yaml.Node, addition: dict[Any, Any] | list[Any]) -> str:
        """Behind the last entry; an empty collection is written anew."""
        if not parent.value:
            span = Span(parent.start_mark.index, parent.end_mark.index)
            return self._put(span, addition)
        end = entries_of(parent)[-1].end
        return f"{self._text[:end]}, {self._flow(addition)[1:-1]}{self._text[end:]}"

    def _remove_from_flow(self, parent: yaml.Node, key: str | int) -> str:
        """The entry and one comma beside it."""
        entries = entries_of(parent)
        index = key if isinstance(key, int) else index_of(parent, key)
        start, end = entries[index]
        if index:
            start = entries[index - 1].end
        elif len(entries) > 1:
            end = entries[1].start
        return self._text[:start] + self._text[end:]

    def _flow(self, value: Any) -> str:
        """In one line; as JSON where the text is JSON."""
        return json.dumps(value) if self._text.lstrip()[:1] == "{" else flow_text(value)

    def _replace_words(self, path: Path, old: str, new: str) -> str:
        node = find(self._root, path)
        assert node is not None
        start, end = node.start_mark.index, node.end_mark.index
        written = self._text[start:end]
        if written.count(old) != 1:
            raise LookupError(f"{old!r} does not stand there once")
        return self._text[:start] + written.replace(old, new) + self._text[end:]

    def _remove_document(self) -> str:
        """From its first line to the next document's, its separator and comments with it."""
        lines = self._text.splitlines(keepends=True)
        separators = [at for at, line in enumerate(lines) if line.split()[:1] == ["---"]]
        assert self._root is not None
        first = self._root.start_mark.line
        before = [at for at in separators if at <= first]
        behind = [at for at in separators if at > first]
        start = before[-1] if before else first
        end = behind[0] if behind else len(lines)
        if not before and behind:
            end += 1  # the first document's end takes the separator with it
        return "".join(lines[:start] + lines[end:])


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and not node.value
