"""Sub-commands that other packages contribute."""

import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
from everstep_cli import __main__, contributed
from everstep_cli.app import build

HEARD: list[list[str]] = []


def command(arguments: list[str]) -> int:
    """Frob what is given.

    Never seen in a list.
    """
    HEARD.append(arguments)
    return 7


@pytest.fixture
def _contributes(monkeypatch: pytest.MonkeyPatch) -> None:
    value = f"{__name__}:command"
    points = [EntryPoint(name, value, contributed.GROUP) for name in ("frob", "checkpoints.frob")]

    def found(**wanted: Any) -> EntryPoints:
        return EntryPoints(points).select(**wanted)

    monkeypatch.setattr(contributed, "entry_points", found)
    monkeypatch.setattr(EntryPoint, "load", lambda self: command)


@pytest.mark.usefixtures("_contributes")
def test_a_contributed_command_gets_all_that_follows_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["everstep", "frob", "--help", "-x", "1"])
    assert __main__.main() == 7
    assert HEARD.pop() == ["--help", "-x", "1"]


@pytest.mark.usefixtures("_contributes")
def test_a_command_contributed_to_a_group_gets_what_follows_both_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["everstep", "checkpoints", "frob", "-x"])
    assert __main__.main() == 7
    assert HEARD.pop() == ["-x"]


@pytest.mark.usefixtures("_contributes")
@pytest.mark.parametrize("group", [[], ["checkpoints"]])
def test_a_contributed_command_is_listed_with_what_it_says_of_itself(
    capsys: pytest.CaptureFixture[str], group: list[str]
) -> None:
    build()(args=[*group, "--help"], standalone_mode=False)
    (row,) = (line for line in capsys.readouterr().out.splitlines() if "frob" in line)
    assert row.strip("│ ").split(maxsplit=1) == ["frob", "Frob what is given."]
