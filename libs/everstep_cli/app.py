"""Our own sub-commands, gathered; those of others are only listed."""

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from inspect import getdoc
from typing import Annotated, Final

import typer

from everstep_cli import checkpoint_commands, commands, job_commands, node_commands
from everstep_cli.contributed import contributed_command, contributed_names
from everstep_cli.drill.faults import FAULTS

PLAIN: Final = (
    commands.events,
    commands.status,
    commands.incidents,
    commands.incident,
    job_commands.suspend,
    job_commands.resume,
    job_commands.rescale,
    node_commands.nodes,
    node_commands.quarantine,
    node_commands.drain,
    node_commands.release,
    commands.plan,
    commands.preflight,
)
OWN: Final = frozenset(("checkpoints", *(command.__name__ for command in (commands.drill, *PLAIN))))


def build(asked: str = "") -> Callable[..., object]:
    """The whole command line; others are loaded only where ``asked`` is no command of ours."""
    app = typer.Typer(name="everstep", add_completion=False, pretty_exceptions_enable=False)
    app.callback()(_everstep)
    app.command(help=_drill_help())(commands.drill)
    for command in PLAIN:
        app.command()(command)
    app.add_typer(checkpoint_commands.checkpoints, name="checkpoints")
    for name in () if asked in OWN - {"checkpoints"} else contributed_names():
        group, _, last = name.rpartition(".")
        parent = checkpoint_commands.checkpoints if group == "checkpoints" else app
        parent.command(last, help=_summary(name))(_elsewhere)
    return typer.main.get_command(app)


def _say_version(asked: bool) -> None:  # noqa: FBT001  # called by typer
    if not asked:
        return
    try:
        found = version("everstep")
    except PackageNotFoundError:
        found = "(run from its sources, not installed)"
    typer.echo(f"everstep {found}")
    raise typer.Exit


def _everstep(
    *,
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_say_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Keep multi-node PyTorch training stepping through hardware failures."""


def _drill_help() -> str:
    """What it does, and what can be done to it; the escape keeps the lines as they are."""
    width = max(map(len, FAULTS))
    listed = "\n".join(f"{name:<{width}}  {fault.summary}" for name, fault in FAULTS.items())
    return f"{getdoc(commands.drill)}\n\n\b\n{listed}"


def _summary(name: str) -> str:
    """The first line of what a contributed command says about itself."""
    try:
        said = getdoc(contributed_command(name)) or ""
    except ImportError as error:
        return f"Not here: {error}."
    return said.partition("\n")[0]


def _elsewhere() -> None:
    """Never called: a contributed command is handed over to before this line is built."""
    raise AssertionError
