"""`everstep preflight` as it is typed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.preflight import GOOD_JOB, with_policies

PUBLISHED = Path(__file__).parents[2] / "unit/everstep_preflight/data/published-job.yaml"
BAD = with_policies("PodFailed -> RestartJob")


def everstep(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "everstep_cli", "preflight", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def bad_file(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(BAD)
    path.chmod(0o640)
    return path


def test_a_clean_job_ends_with_nothing_found() -> None:
    done = everstep("-", stdin=GOOD_JOB)
    assert (done.returncode, done.stdout) == (0, "nothing found\n")


def test_a_finding_says_where_why_and_how_to_put_it_right(bad_file: Path) -> None:
    done = everstep(str(bad_file))
    assert done.returncode == 1
    assert f"{bad_file}:10: error: policy-ends-survivors" in done.stdout
    assert "why: " in done.stdout
    assert "fix: remove spec.policies[0]" in done.stdout
    assert "\x1b" not in done.stdout  # no colours: this is no terminal
    assert bad_file.read_text() == BAD


def test_fix_writes_the_file_and_ends_clean(bad_file: Path) -> None:
    done = everstep("--fix", str(bad_file))
    assert done.returncode == 0
    assert bad_file.read_text() == GOOD_JOB
    assert bad_file.stat().st_mode & 0o777 == 0o640
    assert list(bad_file.parent.iterdir()) == [bad_file]


def test_fix_of_standard_input_is_a_filter() -> None:
    done = everstep("--fix", "-", stdin=BAD)
    assert (done.returncode, done.stdout) == (0, GOOD_JOB)
    assert "fixed: policy-ends-survivors" in done.stderr


def test_fix_that_leaves_something_ends_with_a_finding(tmp_path: Path) -> None:
    copy = tmp_path / "published.yaml"
    copy.write_text(PUBLISHED.read_text())
    assert everstep("--fix", str(copy)).returncode == 1
    once = copy.read_text()
    assert everstep("--fix", str(copy)).returncode == 1
    assert copy.read_text() == once


def test_diff_shows_what_fix_would_change(bad_file: Path) -> None:
    done = everstep("--diff", str(bad_file))
    assert "\n-  - event: 'PodFailed'\n" in done.stdout
    assert bad_file.read_text() == BAD


def test_json_is_one_document_with_the_corrected_text(bad_file: Path) -> None:
    done = everstep("--json", "--diff", str(bad_file))
    document = json.loads(done.stdout)
    (finding,) = document["findings"]
    assert (finding["rule"], finding["line"]) == ("policy-ends-survivors", 10)
    assert document["corrected"] == {str(bad_file): GOOD_JOB}


def test_files_are_looked_at_together(tmp_path: Path) -> None:
    documents = list(yaml.safe_load_all(PUBLISHED.read_text()))
    names = ["group.yaml", "job.yaml"]
    for name, document in zip(names, documents, strict=True):
        (tmp_path / name).write_text(yaml.safe_dump(document))
    done = everstep(*(str(tmp_path / name) for name in names))
    assert "group.yaml:2: error: podgroup-by-hand" in done.stdout


@pytest.mark.parametrize(
    ("content", "said"),
    [("a: [", "no YAML"), ("", "empty"), ("# only words\n", "empty"), (None, "No such file")],
)
def test_what_cannot_be_read_is_told_beside_what_can(
    tmp_path: Path, bad_file: Path, content: str | None, said: str
) -> None:
    other = tmp_path / "other.yaml"
    if content is not None:
        other.write_text(content)
    done = everstep(str(other), str(bad_file))
    assert done.returncode == 2
    assert f"{other}" in done.stdout
    assert said in done.stdout
    assert "policy-ends-survivors" in done.stdout
    assert "Traceback" not in done.stderr


def test_bytes_that_are_no_text_are_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "image.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    assert everstep(str(path)).returncode == 2
    assert everstep(str(tmp_path)).returncode == 2


def test_a_rule_explains_itself() -> None:
    done = everstep("--explain", "task-floor-unset")
    assert done.returncode == 0
    assert "webhook fills" in done.stdout
    assert "source: " in done.stdout


@pytest.mark.parametrize("arguments", [[], ["--explain", "nothing"], ["-", "-"]])
def test_misuse_is_one_line(arguments: list[str]) -> None:
    done = everstep(*arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
