"""Label and field selectors: which objects a list, a watch or a bulk deletion is about."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from everstep_simcluster.api_errors import bad_request
from everstep_simcluster.resources import Object, Resource, value_at

Labels = Mapping[str, str]
Requirement = Callable[[Labels], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)\s*$")
_EQUALITY = re.compile(
    r"^\s*(?P<key>[^\s!=,()]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s!=,()]*)\s*$"
)
_EXISTENCE = re.compile(r"^\s*(?P<absent>!?)\s*(?P<key>[^\s!=,()]+)\s*$")
_TERM = r"(?:[^,()]|\([^()]*\))+"
_TERMS = re.compile(rf"{_TERM}(?:,{_TERM})*")
_FLAGS = ("spec.unschedulable",)  # left out of an object where false
_ALWAYS = {"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace"}


@dataclass(frozen=True)
class Selection:
    """What a request narrows its objects to. An empty one takes everything."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.labels or self.fields)

    def matches(self, body: Object) -> bool:
        """Whether ``body`` is selected by every requirement."""
        labels = body["metadata"].get("labels") or {}
        return all(fits(labels) for fits in self.labels) and all(
            (_as_text(value_at(body, path), path) == wanted) is equal
            for path, wanted, equal in self.fields
        )


EVERYTHING = Selection()


def parse_selection(resource: Resource, labels: str, fields: str) -> Selection:
    """Read the two query parameters.

    Raises:
        ApiError: 400, for what cannot be parsed and for fields that cannot be selected by.
    """
    if labels and not _TERMS.fullmatch(labels):
        raise bad_request(f"unable to parse requirement: found '{labels}'")
    return Selection(
        tuple(_parse_label_term(term) for term in re.findall(_TERM, labels)),
        tuple(_parse_field_term(resource, term) for term in fields.split(",") if term),
    )


def _parse_label_term(term: str) -> Requirement:
    """One of ``a=b``, ``a!=b``, ``a in (b,c)``, ``a notin (b)``, ``a``, ``!a``."""
    if found := _SET.match(term):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUALITY.match(term):
        key, value, equal = found["key"], found["value"], found["operator"] != "!="
        return lambda labels: (labels.get(key) == value) is equal
    if found := _EXISTENCE.match(term):
        key, wanted = found["key"], not found["absent"]
        return lambda labels: (key in labels) is wanted
    raise bad_request(f"unable to parse requirement: found '{term}'")


def matches_label_selector(selector: Object, labels: Labels) -> bool:
    """Whether a ``matchLabels``/``matchExpressions`` selector, as budgets have it, fits."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(
        _matches_expression(expression, labels)
        for expression in selector.get("matchExpressions") or ()
    )


def _matches_expression(expression: Object, labels: Labels) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _parse_field_term(resource: Resource, term: str) -> tuple[str, str, bool]:
    found = _EQUALITY.match(term)
    if found is None:
        raise bad_request(f"invalid field selector {term!r}")
    path = (_ALWAYS | dict(resource.field_selectors)).get(found["key"])
    if path is None:
        raise bad_request(f"field label not supported: {found['key']}")
    return path, found["value"], found["operator"] != "!="


def _as_text(value: object, path: str) -> str:
    if isinstance(value, bool) or path in _FLAGS:
        return "true" if value else "false"
    return "" if value is None else str(value)
