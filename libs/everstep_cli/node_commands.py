"""The flags of commands about nodes; what carries one out is imported when it is called."""

from typing import Annotated, Final

import typer

from everstep_cli.job_commands import short
from everstep_cli.options import (
    DEFAULT_NATS_URL,
    Access,
    AsJson,
    Credentials,
    NatsUrl,
    Store,
)

LONGEST_DRAIN_SECONDS: Final = 604_800.0


def _name(node: str) -> str:
    """A name that a message can carry; whether there is such a node the rescaler knows."""
    from everstep_contract.errors import InvalidNameError
    from everstep_contract.names import encode_name

    try:
        encode_name(node)
    except InvalidNameError as error:
        raise typer.BadParameter(str(error)) from None
    return node


Node = Annotated[
    str, typer.Argument(callback=_name, metavar="NODE", help="As `kubectl get nodes` has it.")
]
Reason = Annotated[
    str, typer.Option("--reason", callback=short, help="Why; kept, and written on the node.")
]
WhyNow = Annotated[
    str, typer.Option("--reason", callback=short, help="Why; kept with what was done.")
]
Within = Annotated[
    float,
    typer.Option(
        *("--timeout",),
        min=1.0,
        max=LONGEST_DRAIN_SECONDS,
        metavar="SECONDS",
        help="How long evictions are tried, and awaited.",
    ),
]
NoWait = Annotated[bool, typer.Option("--no-wait", help="End as soon as it is begun.")]


def nodes(
    *,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """List nodes that are quarantined or drained: since when, why, and on whose word."""
    from everstep_cli.nodes import show_nodes

    show_nodes(Access(nats_url, credentials, store), as_json=as_json)


def quarantine(
    node: Node,
    *,
    reason: Reason,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
) -> None:
    """Cordon and taint a node until it is released; who runs on it goes on.

    Exit status 1: it was refused.
    """
    from everstep_cli.nodes import quarantine_and_show

    quarantine_and_show(Access(nats_url, credentials, None), node, reason, as_json=as_json)


def release(
    node: Node,
    *,
    reason: WhyNow = "released by an operator",
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
) -> None:
    """End a node's quarantine or drain, and undo what Everstep did to it and nothing else.

    Exit status 1: it was refused, or the node is not quarantined by Everstep.
    """
    from everstep_cli.nodes import release_and_show

    release_and_show(Access(nats_url, credentials, None), node, reason, as_json=as_json)


def drain(  # noqa: PLR0913  # a command line
    node: Node,
    *,
    reason: Reason = "maintenance",
    timeout: Within = 600.0,
    no_wait: NoWait = False,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
) -> None:
    """Quarantine a node, and evict the members on it one at a time while their jobs step on.

    Disruption budgets are obeyed, and no job goes below its floor. `everstep release` ends it.
    Exit status 1: it was refused, or somebody is still seated on the node in the end.
    """
    from everstep_cli.nodes import Drain, drain_and_show

    wish = Drain(node, reason, timeout, no_wait, as_json)
    drain_and_show(Access(nats_url, credentials, None), wish)
