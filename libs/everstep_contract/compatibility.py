"""Whether a schema still reads what its released form reads: what may change within v1."""

from typing import Any, Final

Json = dict[str, Any]

_LOWER_BOUNDS: Final = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_UPPER_BOUNDS: Final = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
_FIXED: Final = ("const", "pattern", "format")


def breaking_changes(old: Json, new: Json) -> tuple[str, ...]:
    """Everything that ``old`` admits and ``new`` does not, and every field that is gone.

    Both are JSON Schemas as pydantic makes them, with their definitions under ``$defs``. New
    optional fields and wider types are no break. Recursive models are not supported.
    """
    return tuple(_Comparison(old.get("$defs", {}), new.get("$defs", {})).compare(old, new, "$"))


class _Comparison:
    def __init__(self, old_definitions: Json, new_definitions: Json) -> None:
        self._old = old_definitions
        self._new = new_definitions

    def compare(self, old: Json, new: Json, where: str) -> list[str]:
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        if "anyOf" in old or "oneOf" in old or "anyOf" in new or "oneOf" in new:
            return self._branches(_alternatives(old), _alternatives(new), where)
        return [
            *_values(old, new, where),
            *self._fields(old, new, where),
            *self._nested(old, new, where),
        ]

    def _branches(self, old: list[Json], new: list[Json], where: str) -> list[str]:
        found = []
        for branch in old:
            attempts = [self.compare(branch, candidate, where) for candidate in new]
            if all(attempts):
                found.append(min(attempts, key=len)[0])
        return found

    def _fields(self, old: Json, new: Json, where: str) -> list[str]:
        before, after = old.get("properties", {}), new.get("properties", {})
        required = set(new.get("required", ())) - set(old.get("required", ()))
        found = [f"{where}.{name}: required" for name in sorted(required)]
        found += [f"{where}.{name}: removed" for name in before if name not in after]
        for name in before.keys() & after.keys():
            found += self.compare(before[name], after[name], f"{where}.{name}")
        return found

    def _nested(self, old: Json, new: Json, where: str) -> list[str]:
        found = []
        for keyword in ("items", "additionalProperties", "propertyNames"):
            if isinstance(new.get(keyword), dict):
                found += self.compare(old.get(keyword, {}), new[keyword], f"{where}[]")
        return found


def _values(old: Json, new: Json, where: str) -> list[str]:
    found = []
    if "type" in new and old.get("type") not in (new["type"], _narrower(new["type"])):
        found.append(f"{where}: type {old.get('type')} became {new['type']}")
    if "enum" in new and not set(_enumerated(old)) <= set(new["enum"]):
        found.append(f"{where}: lost values {sorted(set(_enumerated(old)) - set(new['enum']))}")
    found += [
        f"{where}: {keyword} {old.get(keyword)} became {new[keyword]}"
        for keyword in _FIXED
        if keyword in new and new[keyword] != old.get(keyword)
    ]
    found += [
        f"{where}: {keyword} raised" for keyword in _LOWER_BOUNDS if _tighter(old, new, keyword, 1)
    ]
    found += [
        f"{where}: {keyword} lowered"
        for keyword in _UPPER_BOUNDS
        if _tighter(old, new, keyword, -1)
    ]
    return found


def _tighter(old: Json, new: Json, keyword: str, sign: int) -> bool:
    return keyword in new and (keyword not in old or sign * (new[keyword] - old[keyword]) > 0)


def _narrower(kind: str) -> str:
    return "integer" if kind == "number" else kind


def _enumerated(schema: Json) -> list[Any]:
    return [schema["const"]] if "const" in schema else schema.get("enum", ["anything"])


def _alternatives(schema: Json) -> list[Json]:
    return list(schema.get("anyOf") or schema.get("oneOf") or [schema])


def _resolved(schema: Json, definitions: Json) -> Json:
    reference = schema.get("$ref")
    return definitions[reference.rpartition("/")[2]] if reference else schema
