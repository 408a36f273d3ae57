"""`everstep events`: the facts of the bus, as they are stored and as they come."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Annotated, Final

import typer
from everstep_bus.interface import Bus, Received
from everstep_contract.base import Event
from everstep_contract.subjects import EVENTS

from everstep_cli.access import (
    DEFAULT_NATS_URL,
    Access,
    AsJson,
    Credentials,
    NatsUrl,
    Store,
    with_bus,
)
from everstep_cli.describe import line_of

QUIET_SECONDS: Final = 0.5
"""Without --follow, the stored events have all come when none came for this long."""

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on with new events.")]


def events(
    *,
    follow: Follow = False,
    as_json: AsJson = False,
    nats_url: NatsUrl = DEFAULT_NATS_URL,
    credentials: Credentials = None,
    store: Store = None,
) -> None:
    """Print events, oldest first; with --json one CloudEvent a line."""

    async def show(bus: Bus) -> None:
        async for received in stored_facts(bus, follow=follow):
            if isinstance(received.message, Event):
                text = _json_line(received) if as_json else line_of(received.message)
                sys.stdout.write(text + "\n")
                sys.stdout.flush()

    with_bus(show, Access(nats_url, credentials, store))


async def stored_facts(bus: Bus, *, follow: bool = False) -> AsyncIterator[Received]:
    """Stored facts and, on demand, all that come later."""
    facts = bus.facts((f"{EVENTS}.>",))
    while True:
        try:
            async with asyncio.timeout(None if follow else QUIET_SECONDS):
                received = await anext(facts)
        except (TimeoutError, StopAsyncIteration):
            return
        yield received


def _json_line(received: Received) -> str:
    event = received.message
    assert isinstance(event, Event)
    headers = {
        "type": event.TYPE,
        "id": event.dedup_id,
        "time": event.at.isoformat(),
        "subject": received.subject,
        "correlationid": received.cause.correlation_id,
        "causationid": received.cause.causation_id,
    }
    return json.dumps(headers | {"data": event.model_dump(mode="json")})
