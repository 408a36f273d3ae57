"""`everstep plan` as it is typed."""

import json
import subprocess
import sys

import pytest

MEASURED = ("--step-seconds", "0.5", "--stall-seconds", "2", "--flush-seconds", "20")


def everstep(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "everstep_cli", "plan", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_plan_is_printed_for_programs() -> None:
    done = everstep(*MEASURED, "--members", "600", "--json")
    found = json.loads(done.stdout)
    assert (found["snapshot_every"], found["checkpoint_every"]) == (396, 792)
    assert found["mtbf_seconds"] == 21_600
    assert found["because"] == "optimum"
    assert found["goodput"] == pytest.approx(0.9772, abs=0.0001)


def test_a_plan_is_printed_for_people_with_its_reason() -> None:
    done = everstep(*MEASURED, "--members", "600")
    assert "792 steps" in done.stdout
    assert "Daly's optimum" in done.stdout


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--step-seconds", "0"),
        ("--stall-seconds", "-1"),
        ("--member-mtbf-days", "nan"),
        ("--members", "0"),
        ("--most-stall-percent", "200"),
    ],
)
def test_a_number_that_makes_no_sense_is_named(flag: str, value: str) -> None:
    done = everstep(*MEASURED, "--members", "8", flag, value)
    assert (done.returncode, done.stdout) == (2, "")
    assert flag in done.stderr
    assert value in done.stderr
    assert done.stderr.count("\n") == 1
