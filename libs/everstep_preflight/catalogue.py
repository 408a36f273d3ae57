"""All rules there are, and one pass of them over what was given."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from everstep_preflight.manifests import Bundle, Skipped, understand
from everstep_preflight.model import Finding, Rule
from everstep_preflight.reading import Source
from everstep_preflight.rules import (
    agents,
    budgets,
    floors,
    gangs,
    partitions,
    pods,
    policies,
    rendezvous,
    shapes,
    timeouts,
)

_FAMILIES: Final = (
    shapes,
    policies,
    floors,
    gangs,
    pods,
    rendezvous,
    agents,
    timeouts,
    partitions,
    budgets,
)
RULES: Final[dict[str, Rule]] = {rule.id: rule for family in _FAMILIES for rule in family.RULES}
"""By id, in the order in which they are tried."""
_CHECKS: Final[tuple[Callable[[Bundle], Iterator[Finding]], ...]] = tuple(
    family.check for family in _FAMILIES
)
_CHANGEABLE: Final = frozenset({"replicas", "minAvailable"})
"""What Volcano's webhook lets a Job change that is there."""


def check(sources: Sequence[Source]) -> tuple[Finding, ...]:
    """Everything that is wrong, by file and line."""
    bundle = _bundle(sources)
    living = {(job.at.file, job.at.document, job.at.path) for job in bundle.jobs if job.exists}
    order = {source.file: number for number, source in enumerate(sources)}
    findings = {
        (finding.rule.id, finding.at.file, finding.at.document, finding.at.path, finding.message): (
            _marked(finding, living)
        )
        for run in _CHECKS
        for finding in run(bundle)
    }
    return tuple(sorted(findings.values(), key=lambda found: (order[found.at.file], found.line)))


def skipped(sources: Sequence[Source]) -> tuple[Skipped, ...]:
    """Documents that no rule is about."""
    return tuple(_bundle(sources).skipped)


def _bundle(sources: Sequence[Source]) -> Bundle:
    return understand([document for source in sources for document in source.documents])


def _marked(finding: Finding, living: set[tuple[str, int, tuple[str | int, ...]]]) -> Finding:
    """A Job that is there already has to be made anew for all but its counts."""
    at = finding.at
    inside = any(
        (at.file, at.document) == job[:2] and at.path[: len(job[2])] == job[2] for job in living
    )
    last = [change.target.path[-1] for change in finding.fix if change.target.path]
    in_place = bool(last) and set(last) <= _CHANGEABLE
    return replace(finding, recreate=True) if inside and not in_place else finding
