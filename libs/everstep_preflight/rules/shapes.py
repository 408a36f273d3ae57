"""Values of the wrong kind: the API server refuses them, and no other rule can see past them."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from everstep_preflight.located import Located
from everstep_preflight.manifests import Bundle
from everstep_preflight.model import Change, Finding, Rule, SetValue, Severity, target

WRONG: Final = Rule(
    "wrong-type",
    Severity.ERROR,
    "a value of a kind that does not belong there",
    "The API server refuses it, and what it means cannot be checked.",
    "the CustomResourceDefinitions of Volcano 1.16; the API reference of Kubernetes",
)
TWICE: Final = Rule(
    "key-twice",
    Severity.ERROR,
    "a field that is there twice",
    "Only one of them holds, and which one depends on who reads the file.",
    "https://yaml.org/spec/1.2.2/#3213-node-comparison (keys of a mapping are unique)",
)
RULES: Final = (WRONG, TWICE)

_MAPPING, _LIST, _NUMBER, _STRING = "a mapping", "a list", "a whole number", "a string"
_POD: Final = {
    "": _MAPPING,
    "restartPolicy": _STRING,
    "terminationGracePeriodSeconds": _NUMBER,
    "containers": _LIST,
    "containers.*": _MAPPING,
    "containers.*.command": _LIST,
    "containers.*.command.*": _STRING,
    "containers.*.args": _LIST,
    "containers.*.args.*": _STRING,
    "containers.*.env": _LIST,
    "containers.*.env.*": _MAPPING,
    "containers.*.env.*.name": _STRING,
    "containers.*.env.*.value": _STRING,
    "containers.*.resources": _MAPPING,
    "containers.*.resources.limits": _MAPPING,
    "containers.*.volumeMounts": _LIST,
    "containers.*.volumeMounts.*": _MAPPING,
    "volumes": _LIST,
    "volumes.*": _MAPPING,
    "tolerations": _LIST,
    "tolerations.*": _MAPPING,
}
_POLICIES: Final = {"policies": _LIST, "policies.*": _MAPPING, "policies.*.action": _STRING}
_JOB: Final = {
    "": _MAPPING,
    "minAvailable": _NUMBER,
    "maxRetry": _NUMBER,
    "queue": _STRING,
    "schedulerName": _STRING,
    "priorityClassName": _STRING,
    "plugins": _MAPPING,
    "plugins.*": _LIST,
    **_POLICIES,
    "tasks": _LIST,
    "tasks.*": _MAPPING,
    "tasks.*.name": _STRING,
    "tasks.*.replicas": _NUMBER,
    "tasks.*.minAvailable": _NUMBER,
    "tasks.*.partitionPolicy": _MAPPING,
    "tasks.*.template": _MAPPING,
    **{f"tasks.*.{field}": kind for field, kind in _POLICIES.items()},
    **{f"tasks.*.template.spec.{f}".rstrip("."): kind for f, kind in _POD.items()},
}
_METADATA: Final = {"metadata": _MAPPING, "metadata.name": _STRING, "metadata.namespace": _STRING}
_GROUP: Final = {
    "spec": _MAPPING,
    "spec.minMember": _NUMBER,
    "spec.minResources": _MAPPING,
    "spec.queue": _STRING,
    "spec.priorityClassName": _STRING,
}
_BUDGET: Final = {
    "spec": _MAPPING,
    "spec.selector": _MAPPING,
    "spec.selector.matchLabels": _MAPPING,
}


def check(bundle: Bundle) -> Iterator[Finding]:
    """Findings about kinds of values and about keys that are there twice."""
    for job in bundle.jobs:
        yield from _check_all(job.at, _METADATA)
        yield from _check_all(job.spec, _JOB)
        yield from _check_keys(job.at)
    for template in bundle.templates:
        yield from _check_all(template.spec, _POD)
        yield from _check_keys(template.spec)
    for group in bundle.groups:
        yield from _check_all(group.at, _METADATA | _GROUP)
        yield from _check_keys(group.at)
    for budget in bundle.budgets:
        yield from _check_all(budget.at, _METADATA | _BUDGET)
        yield from _check_keys(budget.at)


def _check_all(at: Located, kinds: dict[str, str]) -> Iterator[Finding]:
    for field, kind in kinds.items():
        for found in _matches(at, field.split(".") if field else []):
            if not found.is_null() and found.kind() != kind:
                yield _wrong(found, kind)


def _matches(at: Located, parts: list[str]) -> Iterator[Located]:
    if not parts:
        yield at
    elif parts[0] == "*":
        for below in (*at.items(), *(value for _, value in at.pairs())):
            yield from _matches(below, parts[1:])
    elif found := at.get(parts[0]):
        yield from _matches(found, parts[1:])


def _wrong(found: Located, kind: str) -> Finding:
    message = f"{found.kind()} stands here, where {kind} belongs"
    text = found.words()
    fix: tuple[Change, ...] = ()
    if kind == _NUMBER and text is not None and text.isdecimal() and text.isascii():
        fix = (SetValue(target(found), int(text)),)
    elif kind == _STRING and text:
        fix = (SetValue(target(found), text),)
    return Finding(WRONG, found, message, found.line, fix, "" if fix else f"write {kind}")


def _check_keys(at: Located) -> Iterator[Finding]:
    pairs = at.own_pairs()
    for key, count in Counter(key for key, _ in pairs).items():
        if count > 1:
            value = [value for name, value in pairs if name == key][-1]
            message = f"{key} is there {count} times"
            yield Finding(TWICE, value, message, value.line, advice="keep one of them")
    for below in (*(value for _, value in pairs), *at.items()):
        yield from _check_keys(below)
