"""What preflight found: for people, and as one JSON document."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from everstep_preflight.describe import describe
from everstep_preflight.errors import UnreadableError
from everstep_preflight.manifests import Skipped
from everstep_preflight.model import Finding, Rule, Severity
from rich.console import Console
from rich.text import Text

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow"}


@dataclass(frozen=True, kw_only=True)
class Report:
    """One run: what is wrong, what was put right, what could not be looked at."""

    findings: tuple[Finding, ...]
    fixed: tuple[Finding, ...]
    skipped: tuple[Skipped, ...]
    unreadable: tuple[UnreadableError, ...]
    corrected: Mapping[str, str]


def show_text(report: Report, console: Console) -> None:
    """Print it for people; colours are the console's to leave out."""
    for error in report.unreadable:
        _print(console, Text.assemble((f"{error}", "bold red")))
    for skip in report.skipped:
        _print(console, Text(f"{skip.at.file}:{skip.at.line}: skipped: {skip.why}", "dim"))
    for finding in report.fixed:
        head = Text.assemble((f"{finding.where}: fixed: ", "bold green"), finding.rule.id)
        _print(console, head, Text(f"    {finding.message}"))
    told: set[str] = set()
    for finding in report.findings:
        _print(console, *_lines(finding, with_why=finding.rule.id not in told))
        told.add(finding.rule.id)
    _print(console, Text(_summary(report)))


def show_rule(rule: Rule, console: Console) -> None:
    """Print one rule."""
    _print(
        console,
        Text.assemble((rule.id, "bold"), ": ", (rule.severity, _STYLES[rule.severity])),
        Text(f"    {rule.summary}"),
        Text(f"    why: {rule.why}"),
        Text(f"    source: {rule.source}"),
    )


def show_json(report: Report) -> None:
    """Print it as one JSON document."""
    document = {
        "findings": [_document(finding) for finding in report.findings],
        "fixed": [_document(finding) for finding in report.fixed],
        "skipped": [
            {"file": skip.at.file, "line": skip.at.line, "why": skip.why} for skip in report.skipped
        ],
        "unreadable": [
            {"file": error.file, "line": error.line, "why": error.why}
            for error in report.unreadable
        ],
        "corrected": dict(report.corrected),
    }
    sys.stdout.write(json.dumps(document) + "\n")


def _lines(finding: Finding, *, with_why: bool) -> Iterator[Text]:
    rule = finding.rule
    yield Text.assemble(
        f"{finding.where}: ",
        (f"{rule.severity}: ", _STYLES[rule.severity]),
        (rule.id, "bold"),
        (f"  {finding.path}", "dim"),
    )
    yield Text(f"    {finding.message}")
    if with_why:
        yield Text(f"    why: {rule.why}", "dim")
    for line in describe(finding):
        yield Text.assemble("    ", ("fix: " if finding.fix else "by hand: ", "bold"), line)
    if finding.recreate:
        yield Text("    the Job is there already: it takes this only when it is made anew")


def _document(finding: Finding) -> dict[str, Any]:
    rule = finding.rule
    return {
        "rule": rule.id,
        "severity": rule.severity,
        "file": finding.at.file,
        "line": finding.line,
        "path": finding.path,
        "message": finding.message,
        "why": rule.why,
        "source": rule.source,
        "by_hand": not finding.fix,
        "correction": list(describe(finding)),
        "recreate": finding.recreate,
    }


def _summary(report: Report) -> str:
    lost = f"; {len(report.unreadable)} could not be read" if report.unreadable else ""
    if not report.findings:
        clean = f"nothing left, {len(report.fixed)} fixed" if report.fixed else "nothing found"
        return clean + lost
    errors = sum(finding.rule.severity is Severity.ERROR for finding in report.findings)
    by_hand = sum(not finding.fix for finding in report.findings)
    parts = [
        f"{errors} errors, {len(report.findings) - errors} warnings",
        f"{len(report.findings) - by_hand} can be put right by --fix" if not report.fixed else "",
        f"{len(report.fixed)} fixed" if report.fixed else "",
        f"{by_hand} need a person",
    ]
    return "; ".join(part for part in parts if part) + lost


def _print(console: Console, *lines: Text) -> None:
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)
