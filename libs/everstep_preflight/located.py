"""A value of a YAML document that knows where it stands."""

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from everstep_preflight.loading import scalar

Path = tuple[str | int, ...]
"""Keys and indices from a document's root."""

_INTEGER = "tag:yaml.org,2002:int"
_STRING = "tag:yaml.org,2002:str"
_NULL = "tag:yaml.org,2002:null"
_TRUTH = "tag:yaml.org,2002:bool"


def show_path(path: Path) -> str:
    """The path as people write it: ``spec.tasks[0].name``."""
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return shown.removeprefix(".") or "(document)"


@dataclass(frozen=True)
class Located:
    """One value: which file and document it is in, its path, its line (from 1)."""

    file: str
    document: int
    path: Path
    line: int
    node: yaml.Node

    def get(self, *keys: str | int) -> "Located | None":
        """The value below, or None where a key is absent or something else stands in between."""
        found: Located | None = self
        for key in keys:
            found = found.child(key) if found else None
        return found

    def child(self, key: str | int) -> "Located | None":
        """The value directly below; of a key that is there twice the last one, as parsers do."""
        if isinstance(key, int):
            items = self.items()
            return items[key] if key < len(items) else None
        return dict(self.pairs()).get(key)

    def pairs(self) -> tuple[tuple[str, "Located"], ...]:
        """Keys and values in order; none where this is no mapping."""
        return tuple(self._pairs())

    def _pairs(self) -> Iterator[tuple[str, "Located"]]:
        if isinstance(self.node, yaml.MappingNode):
            for key, value in self.node.value:
                if isinstance(key, yaml.ScalarNode):
                    yield key.value, self._below(key.value, value, key.start_mark.line + 1)

    def own_pairs(self) -> tuple[tuple[str, "Located"], ...]:
        """Those that are written here, and not merged in by ``<<`` from elsewhere."""
        start, end = self.node.start_mark.index, self.node.end_mark.index
        keys = self.node.value if isinstance(self.node, yaml.MappingNode) else ()
        return tuple(
            (key.value, self._below(key.value, value, key.start_mark.line + 1))
            for key, value in keys
            if isinstance(key, yaml.ScalarNode) and start <= key.start_mark.index < end
        )

    def items(self) -> tuple["Located", ...]:
        """The items in order; none where this is no list."""
        if not isinstance(self.node, yaml.SequenceNode):
            return ()
        return tuple(
            self._below(index, item, item.start_mark.line + 1)
            for index, item in enumerate(self.node.value)
        )

    def text(self) -> str | None:
        """The string, or None where this is none."""
        return self.node.value if self._is(_STRING) else None

    def words(self) -> str | None:
        """The scalar as it is written, whatever its type: what a shell would see."""
        return self.node.value if isinstance(self.node, yaml.ScalarNode) else None

    def integer(self) -> int | None:
        """The whole number, or None where this is none."""
        if not self._is(_INTEGER):
            return None
        found = scalar(self.node)
        return found if isinstance(found, int) else None

    def is_null(self) -> bool:
        """Whether nothing is written here."""
        return self._is(_NULL)

    def is_true(self) -> bool:
        """Whether this says true."""
        return self._is(_TRUTH) and bool(scalar(self.node))

    def kind(self) -> str:
        """What this is, for people: a string, a list ..."""
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        if isinstance(self.node, yaml.SequenceNode):
            return "a list"
        named = {_STRING: "a string", _INTEGER: "a whole number", _NULL: "empty"}
        return named.get(self.node.tag, f"{self.node.value!r}")

    def line_of(self, words: str) -> int:
        """The line on which ``words`` stand in this string; this value's line if they do not."""
        mark = self.node.start_mark
        if mark.buffer is None or not isinstance(self.node, yaml.ScalarNode):
            return self.line
        written = mark.buffer[mark.pointer : self.node.end_mark.pointer]
        before, found, _ = written.partition(words)
        return int(mark.line) + 1 + before.count("\n") if found else self.line

    def _is(self, tag: str) -> bool:
        return isinstance(self.node, yaml.ScalarNode) and self.node.tag == tag

    def _below(self, key: str | int, node: yaml.Node, line: int) -> "Located":
        return Located(self.file, self.document, (*self.path, key), line, node)
