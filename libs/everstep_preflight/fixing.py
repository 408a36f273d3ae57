"""Fix what can be fixed, one finding after the other, until nothing is left but a person's part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from everstep_preflight.describe import describe
from everstep_preflight.editing import edited
from everstep_preflight.model import Change, Finding
from everstep_preflight.reading import Source

MOST_FIXES: Final = 1000
"""Of one call: each fix is a pass over all texts."""

Check = Callable[[Sequence[Source]], tuple[Finding, ...]]


@dataclass(frozen=True)
class Fixed:
    """The texts as they are now, what was put right in them, and what is left."""

    sources: tuple[Source, ...]
    fixed: tuple[Finding, ...]
    left: tuple[Finding, ...]


def fix(sources: Sequence[Source], check: Check) -> Fixed:
    """Apply every fix that can be proven; ``check`` finds what is wrong in texts."""
    current = {source.file: source for source in sources}
    fixed: list[Finding] = []
    impossible: list[tuple[Change, ...]] = []
    findings = check(sources)
    while len(fixed) < MOST_FIXES:
        finding = next((one for one in findings if one.fix and one.fix not in impossible), None)
        if finding is None:
            break
        after = _applied(current, finding.fix)
        if after is None:
            impossible.append(finding.fix)
            continue
        current = after
        fixed.append(finding)
        findings = check(tuple(current.values()))
        impossible.clear()  # lines and numbers of documents may have moved
    left = tuple(_for_a_person(finding) for finding in findings)
    return Fixed(tuple(current.values()), tuple(fixed), left)


def judged(sources: Sequence[Source], findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, with fixes only where `fix` can make them: aliases may forbid one."""
    texts = {source.file: source for source in sources}
    return tuple(
        _for_a_person(finding)
        if texts[finding.at.file].has_aliases and _applied(texts, finding.fix) is None
        else finding
        for finding in findings
    )


def _for_a_person(finding: Finding) -> Finding:
    """What could not be fixed is a person's to decide; the text allows no edit of its own."""
    if not finding.fix:
        return finding
    advice = (
        f"{'; '.join(describe(finding))} (an anchor, or a key that is there twice, allows no edit)"
    )
    return replace(finding, fix=(), advice=advice)


def _applied(sources: Mapping[str, Source], changes: Sequence[Change]) -> dict[str, Source] | None:
    """All changes of one fix, or none of them."""
    result = dict(sources)
    for change in changes:
        after = edited(result[change.target.file], (change,))
        if after is None:
            return None
        result[after.file] = after
    return result
