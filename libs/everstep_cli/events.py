"""`everstep events`: the facts of the bus, as they are stored and as they come."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Final

from everstep_bus.interface import Bus, Received
from everstep_contract.base import Event
from everstep_contract.subjects import EVENTS

from everstep_cli.access import with_bus
from everstep_cli.describe import line_of
from everstep_cli.errors import MisuseError
from everstep_cli.options import Access

QUIET_SECONDS: Final = 0.5
"""Without --follow, the stored events have all come when none came for this long."""


def show_events(access: Access, *, follow: bool, as_json: bool) -> None:
    """Print events as they were stored and, with ``follow``, as they come."""
    if follow and access.store:
        raise MisuseError("--follow: nothing new comes to a --store")

    async def show(bus: Bus) -> None:
        async for received in stored_facts(bus, follow=follow):
            if isinstance(received.message, Event):
                text = _json_line(received) if as_json else line_of(received.message)
                sys.stdout.write(text + "\n")
                sys.stdout.flush()

    with_bus(show, access)


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
