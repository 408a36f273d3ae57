"""`everstep nodes`, `quarantine`, `release` and `drain`: asked of the rescaler, and awaited."""

import getpass
import json
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from everstep_bus.errors import NoReplyError, QueryRefusedError
from everstep_bus.interface import Bus
from everstep_contract.layout import NODES
from everstep_contract.node_queries import (
    DrainNode,
    NodeStanding,
    NodeStatus,
    QuarantineNode,
    ReleaseNode,
)
from everstep_contract.queries import Query
from everstep_contract.record import NodeRecord
from rich.table import Table

from everstep_cli.access import with_bus
from everstep_cli.errors import CommandError
from everstep_cli.options import Access
from everstep_cli.terminal import output, progress
from everstep_cli.waiting import answered

ANSWER_SECONDS: Final = 15.0
"""How long the rescaler may take: it asks the API server first, and writes to it."""


@dataclass(frozen=True)
class Drain:
    """What is asked for."""

    node: str
    reason: str
    timeout_seconds: float
    no_wait: bool
    as_json: bool


def show_nodes(access: Access, *, as_json: bool) -> None:
    """Print the nodes that are quarantined now."""

    async def show(bus: Bus) -> None:
        entries = await bus.kv(NODES).entries()
        found = [one.value for one in entries if one.value and one.value.quarantined_by]
        if as_json:
            sys.stdout.write(json.dumps([one.model_dump(mode="json") for one in found]) + "\n")
        else:
            output().print(node_list(found) if found else "no node is quarantined")

    with_bus(show, access)


def node_list(records: list[NodeRecord]) -> Table:
    """A line a node, the newest last."""
    table = Table("node", "since", "by", "cause", "incident", "why")
    for record in sorted(records, key=lambda one: one.at):
        since = record.at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
        by = record.by or "everstep"
        cause, incident = record.cause or "", record.quarantined_by or ""
        node = f"{record.node} (deleted)" if record.deleted else record.node
        table.add_row(node, since, by, cause, incident, record.reason)
    return table


def quarantine_and_show(access: Access, node: str, reason: str, *, as_json: bool) -> None:
    """Quarantine the node, and print what was done.

    Raises:
        CommandError: It was refused, with the reason.
    """
    _ask_and_show(access, QuarantineNode(node=node, reason=reason, by=who()), as_json=as_json)


def release_and_show(access: Access, node: str, reason: str, *, as_json: bool) -> None:
    """Release the node, and print what was done.

    Raises:
        CommandError: It was refused, with the reason.
    """
    _ask_and_show(access, ReleaseNode(node=node, reason=reason, by=who()), as_json=as_json)


def _ask_and_show(access: Access, query: Query, *, as_json: bool) -> None:
    async def ask(bus: Bus) -> None:
        _show(await told(bus, query), as_json=as_json)

    with_bus(ask, access)


def drain_and_show(access: Access, wish: Drain) -> None:
    """Drain the node, and print how it ended; what it waits for goes to standard error.

    Raises:
        CommandError: It was refused, or members are still seated on the node.
    """
    with_bus(lambda bus: _drain(bus, wish), access)


async def _drain(bus: Bus, wish: Drain) -> None:
    query = DrainNode(
        node=wish.node, reason=wish.reason, by=who(), timeout_seconds=wish.timeout_seconds
    )
    standing = await told(bus, query)
    incident = _incident(standing)
    if not wish.no_wait and not standing.drained:
        shown = ""

        async def look() -> NodeStanding | None:
            nonlocal standing, shown
            with suppress(CommandError):  # another rescaler takes over within seconds
                standing = await told(bus, NodeStatus(node=wish.node))
            if standing.waiting_for not in ("", shown) and not wish.as_json:
                shown = standing.waiting_for
                progress().print(f"waits for {shown}", markup=False, highlight=False)
            return standing if standing.drained or _incident(standing) != incident else None

        await answered(look, within_seconds=wish.timeout_seconds)
    _show(standing, as_json=wish.as_json)
    if wish.no_wait or standing.drained:
        return
    if _incident(standing) != incident:
        raise CommandError(f"{wish.node} was released meanwhile")
    waits = f": waits for {standing.waiting_for}" if standing.waiting_for else ""
    raise CommandError(f"not drained after {wish.timeout_seconds:g} s{waits}")


def _incident(standing: NodeStanding) -> str | None:
    return standing.record.quarantined_by if standing.record else None


async def told(bus: Bus, query: Query) -> NodeStanding:
    """The rescaler's answer.

    Raises:
        CommandError: It refuses, with its reason, or does not answer.
    """
    try:
        return await bus.ask(query, NodeStanding, timeout_seconds=ANSWER_SECONDS)
    except QueryRefusedError as error:
        raise CommandError(f"refused: {error.reason}") from None
    except NoReplyError:
        raise CommandError(
            "no rescaler that has a cluster (EVERSTEP_CLUSTER=kubernetes) answers;"
            " should one have heard of it, `everstep nodes` tells"
        ) from None


def who() -> str:
    """Whoever types, as far as this machine knows: text for people, and no proof."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        user = "somebody"
    return f"{user}@{socket.gethostname()}"[:253]


def _show(standing: NodeStanding, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(standing.model_dump(mode="json")) + "\n")
        return
    for line in _lines(standing):
        output().print(line, markup=False, highlight=False)


def _lines(standing: NodeStanding) -> list[str]:
    record, lines = standing.record, [standing.said] if standing.said else []
    node = record.node if record else ""
    if standing.drained:
        lines.append(f"{node} is drained; when the work is done: everstep release {node}")
    elif standing.members:
        lines.append(f"seated on it: {', '.join(standing.members)}")
    return lines
