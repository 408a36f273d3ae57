"""The sub-commands, gathered: ours, and those found by the entry-point group."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import typer

from everstep_cli.drill.command import drill
from everstep_cli.events import events
from everstep_cli.incidents import incident, incidents
from everstep_cli.status import status

GROUP: Final = "everstep.commands"
"""Entry points of this group are sub-commands: ``main(arguments) -> exit status``."""
_PASS_ON: Final = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "help_option_names": [],
}


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
    for found in entry_points(group=GROUP):
        _contribute(app, found)
    return typer.main.get_command(app)


def _contribute(app: typer.Typer, found: EntryPoint) -> None:
    @app.command(found.name, context_settings=dict(_PASS_ON), help=f"See {found.name} --help.")
    def contributed(context: typer.Context) -> None:
        raise typer.Exit(found.load()(context.args))
