"""Our own sub-commands, gathered; those of others are only listed."""

from collections.abc import Callable

import typer

from everstep_cli.contributed import contributed_names
from everstep_cli.drill.command import drill
from everstep_cli.events import events
from everstep_cli.incidents import incident, incidents
from everstep_cli.status import status


def build() -> Callable[..., object]:
    """The whole command line."""
    app = typer.Typer(
        name="everstep",
        help="Keep multi-node PyTorch training stepping through hardware failures.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for command in (drill, events, status, incidents, incident):
        app.command()(command)
    for name in contributed_names():
        app.command(name, help=f"`everstep {name} --help` tells.")(_elsewhere)
    return typer.main.get_command(app)


def _elsewhere() -> None:
    """Never called: a contributed command is handed over to before this line is built."""
    raise AssertionError
