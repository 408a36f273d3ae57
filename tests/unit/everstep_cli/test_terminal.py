"""What others wrote, as people see it."""

import pytest
import typer
from everstep_cli.job_commands import short
from everstep_cli.terminal import output
from rich.table import Table


def test_brackets_and_escapes_in_what_others_wrote_are_shown_as_they_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table("why")
    table.add_row("see [/] and [bold]x[/bold] :bomb: \x1b[2Jcleared")
    output().print(table)
    output().print("gone [/]\x1b[2J")
    shown = capsys.readouterr().out
    assert "see [/] and [bold]x[/bold] :bomb: \\x1b[2Jcleared" in shown
    assert "gone [/]\\x1b[2J" in shown
    assert "\x1b" not in shown


def test_a_reason_is_one_line_of_text() -> None:
    assert short("its fan\n  rattles\r\n") == "its fan rattles"
    for odd in ("\n", "\udcff", "a" * 1001):
        with pytest.raises(typer.BadParameter):
            short(odd)
