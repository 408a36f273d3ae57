"""Where a value's text begins and ends, and how new lines are written."""

from typing import Any, NamedTuple

import yaml

from everstep_preflight.located import Path


class Span(NamedTuple):
    """Characters of a text."""

    start: int
    end: int


def find(node: yaml.Node | None, path: Path) -> yaml.Node | None:
    """The node at ``path``."""
    for part in path:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part] if part < len(node.value) else None
        elif isinstance(node, yaml.MappingNode):
            pair = pair_of(node, part)
            node = pair[1] if pair else None
        else:
            return None
    return node


def pair_of(node: yaml.Node, key: str | int) -> tuple[yaml.Node, yaml.Node] | None:
    """A mapping's key and value; of a key that is there twice the last one."""
    pairs: list[tuple[yaml.Node, yaml.Node]] = (
        node.value if isinstance(node, yaml.MappingNode) else []
    )
    return next((pair for pair in reversed(pairs) if pair[0].value == key), None)


def entries_of(node: yaml.Node) -> list[Span]:
    """The entries of a collection, keys and values together."""
    if isinstance(node, yaml.MappingNode):
        return [Span(key.start_mark.index, end_of_value(value)) for key, value in node.value]
    return [Span(item.start_mark.index, end_of_value(item)) for item in node.value]


def index_of(node: yaml.Node, key: str) -> int:
    """Which entry of a mapping has this key; the last one if several have."""
    return max(index for index, pair in enumerate(node.value) if pair[0].value == key)


def is_flow(node: yaml.Node) -> bool:
    """Whether it is written in braces or brackets."""
    return isinstance(node, yaml.CollectionNode) and bool(node.flow_style)


def end_of_value(node: yaml.Node) -> int:
    """Just behind a value's last character; parsers see a block's end only at what follows it."""
    if isinstance(node, yaml.MappingNode) and not is_flow(node) and node.value:
        return end_of_value(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not is_flow(node) and node.value:
        return end_of_value(node.value[-1])
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
        written = str(node.end_mark.buffer)[node.start_mark.pointer : node.end_mark.pointer]
        return end - (len(written) - len(written.rstrip()))
    return end


def line_start(text: str, at: int) -> int:
    """Where the line begins that ``at`` is on."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Where the line after the one begins that ``at`` is on."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def newline_of(text: str) -> str:
    """How this text ends its lines."""
    return "\r\n" if "\r\n" in text else "\n"


def indented(value: Any, column: int) -> str:
    """The value as block lines, moved to the right."""
    written = yaml.safe_dump(value, default_flow_style=False, sort_keys=False, width=1000)
    return "".join(f"{' ' * column}{line}\n" for line in written.splitlines())


def flow_text(value: Any) -> str:
    """The value in one line."""
    written = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6)
    return written.removesuffix("\n").removesuffix("\n...")
