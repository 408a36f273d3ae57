"""`everstep preflight`: files in, findings out, and the files put right where that can be."""

import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from everstep_preflight.catalogue import RULES, check, skipped
from everstep_preflight.errors import UnreadableError
from everstep_preflight.fixing import Fixed, fix, judged
from everstep_preflight.reading import MOST_CHARACTERS, Source, read

from everstep_cli.errors import MisuseError
from everstep_cli.preflight_cluster import fetched
from everstep_cli.preflight_report import Report, show_json, show_rule, show_text
from everstep_cli.terminal import output, progress

STDIN: Final = "-"
STDIN_NAME: Final = "<stdin>"
CLUSTER: Final = "cluster:"
"""What does not come from a file is called by these, and is written to standard output."""
CLEAN, FOUND, UNREADABLE = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """What the command line asks for beside the files."""

    fix: bool
    diff: bool
    as_json: bool
    from_cluster: str | None = None
    kubeconfig: Path | None = None


def explain_rule(name: str) -> int:
    """Print one rule.

    Raises:
        MisuseError: There is no such rule.
    """
    rule = RULES.get(name)
    if rule is None:
        raise MisuseError(f"--explain {name}: no rule; there are {', '.join(sorted(RULES))}")
    show_rule(rule, output())
    return CLEAN


def run_preflight(files: Sequence[str], wishes: Wishes) -> int:
    """Check ``files`` together, and return the exit status.

    Raises:
        MisuseError: Nothing is named, or a file twice.
    """
    if not files and not wishes.from_cluster:
        raise MisuseError("name at least one file; - is standard input")
    if len(set(files)) < len(files):
        raise MisuseError("a file is named twice")
    sources, unreadable = _read_all(files, wishes)
    asked = wishes.fix or wishes.diff
    result = fix(sources, check) if asked else Fixed(sources, (), judged(sources, check(sources)))
    report = Report(
        findings=result.left if wishes.fix or not asked else judged(sources, check(sources)),
        fixed=result.fixed if wishes.fix else (),
        skipped=skipped(sources),
        unreadable=tuple(unreadable),
        corrected={source.file: source.text for source in result.sources} if asked else {},
    )
    _show(report, sources, result, wishes)
    if wishes.fix:
        _write(sources, result, wishes)
    if unreadable:
        return UNREADABLE
    return FOUND if report.findings else CLEAN


def _read_all(
    files: Sequence[str], wishes: Wishes
) -> tuple[tuple[Source, ...], list[UnreadableError]]:
    sources: list[Source] = []
    unreadable: list[UnreadableError] = []
    readers = [partial(_read_file, file) for file in files]
    if wishes.from_cluster:
        readers.append(partial(_read_cluster, wishes.from_cluster, wishes.kubeconfig))
    for reader in readers:
        try:
            sources.append(reader())
        except UnreadableError as error:
            unreadable.append(error)
    return tuple(sources), unreadable


def _read_cluster(job: str, kubeconfig: Path | None) -> Source:
    return read(f"{CLUSTER}{job}", fetched(job, kubeconfig))


def _is_file(source: Source) -> bool:
    return source.file != STDIN_NAME and not source.file.startswith(CLUSTER)


def _read_file(file: str) -> Source:
    name = STDIN_NAME if file == STDIN else file
    try:
        if file == STDIN:
            content = sys.stdin.buffer.read(MOST_CHARACTERS + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(MOST_CHARACTERS + 1)
        text = content.decode()
    except UnicodeDecodeError:
        raise UnreadableError(name, "no UTF-8") from None
    except OSError as error:
        raise UnreadableError(name, error.strerror or str(error)) from None
    source = read(name, text)
    if all(document is None for document in source.data):
        raise UnreadableError(name, "empty: no document is in it")
    return source


def _show(report: Report, sources: Sequence[Source], result: Fixed, wishes: Wishes) -> None:
    text_on_stdout = wishes.fix and not all(map(_is_file, sources))
    if wishes.as_json:
        show_json(report)
        return
    console = progress() if text_on_stdout else output()
    show_text(report, console)
    for before, after in zip(sources, result.sources, strict=True) if wishes.diff else ():
        names = (before.file, f"{before.file} (put right)")
        lines = (before.text.splitlines(), after.text.splitlines())
        for line in difflib.unified_diff(*lines, *names, lineterm=""):
            console.print(line, soft_wrap=True, markup=False, highlight=False)


def _write(sources: Sequence[Source], result: Fixed, wishes: Wishes) -> None:
    for before, after in zip(sources, result.sources, strict=True):
        if not _is_file(before):
            if not wishes.as_json:
                sys.stdout.write(after.text)
        elif after.text != before.text:
            _replace(Path(before.file).resolve(), after.text)


def _replace(path: Path, text: str) -> None:
    """All of the new text, or the old one: never half of it."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as opened:
            opened.write(text)
        shutil.copymode(path, name)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
