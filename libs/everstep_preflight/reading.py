"""Text -> located documents. Whatever the text is, the answer is documents or one clear error."""

from dataclasses import dataclass
from typing import Any, Final

import yaml

from everstep_preflight.errors import UnreadableError
from everstep_preflight.loading import Loader, documents
from everstep_preflight.located import Located

MOST_CHARACTERS: Final = 4 << 20
"""More than the API server takes in one request."""
MOST_VALUES: Final = 1_000_000
"""Values of a text with its aliases written out: a few lines of aliases can mean millions."""


@dataclass(frozen=True)
class Source:
    """One text: its documents with their places, and as plain data. Empty documents are left out
    of ``documents`` and are None in ``data``."""

    file: str
    text: str
    documents: tuple[Located, ...]
    data: tuple[Any, ...]
    has_aliases: bool


def read(file: str, text: str) -> Source:
    """Parse ``text``, called ``file`` in what is said about it.

    Raises:
        UnreadableError: It is no YAML, or none that a cluster would take.
    """
    if len(text) > MOST_CHARACTERS:
        raise UnreadableError(file, f"more than {MOST_CHARACTERS} characters")
    try:
        nodes = documents(text)
        has_aliases = _check_aliases(file, nodes)
        loader = Loader("")
        data = tuple(_data(loader, node) for node in nodes)
    except RecursionError:
        raise UnreadableError(file, "nested too deeply") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        hint = "; a template has to be rendered first" if "{{" in text else ""
        raise UnreadableError(file, f"no YAML: {error.problem}{hint}", line=line) from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        said = str(error).partition("\n")[0]
        raise UnreadableError(file, f"no YAML: {said}") from None
    located = tuple(
        Located(file, index, (), node.start_mark.line + 1, node)
        for index, node in enumerate(nodes)
        if node is not None
    )
    return Source(file, text, located, data, has_aliases)


def _data(loader: Loader, node: yaml.Node | None) -> Any:
    return None if node is None else loader.construct_document(node)


def _check_aliases(file: str, nodes: list[yaml.Node | None]) -> bool:
    """Whether a value stands in several places; too many of them are refused."""
    counted: dict[int, int] = {}
    total = sum(_count(file, node, counted) for node in nodes if node is not None)
    if total > MOST_VALUES:
        raise UnreadableError(file, f"its aliases stand for more than {MOST_VALUES} values")
    return total > len(counted)


def _count(file: str, node: yaml.Node, counted: dict[int, int]) -> int:
    known = counted.get(id(node))
    if known == 0:
        line = node.start_mark.line + 1
        raise UnreadableError(file, "an alias stands inside what it refers to", line=line)
    if known is None:
        counted[id(node)] = 0
        below = sum(_count(file, child, counted) for child in _children(node))
        counted[id(node)] = known = 1 + below
    return known


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []
