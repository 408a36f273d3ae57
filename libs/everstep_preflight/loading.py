"""YAML as Kubernetes reads it, which is not quite as PyYAML does.

``6:8`` is a number of base 60 to PyYAML and ``2026-01-01`` a date; to Kubernetes both are strings.
"""

import re
from typing import Any, Final

import yaml

_STRINGS_THERE: Final = frozenset({"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value"})
_WITHOUT_BASE_60: Final = {
    "tag:yaml.org,2002:int": re.compile(
        r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)\Z"
    ),
    "tag:yaml.org,2002:float": re.compile(
        r"(?:[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}


class Loader(yaml.SafeLoader):
    """Reads plain scalars as Kubernetes does."""


Loader.yaml_implicit_resolvers = {
    first: [
        (tag, _WITHOUT_BASE_60.get(tag, pattern))
        for tag, pattern in resolvers
        if tag not in _STRINGS_THERE
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def scalar(node: yaml.Node) -> Any:
    """The plain value of one scalar."""
    return Loader("").construct_object(node)


def documents(text: str) -> list[yaml.Node | None]:
    """The documents of a text."""
    return list(yaml.compose_all(text, Loader=Loader))
