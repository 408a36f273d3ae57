"""Publish what a reader cannot decode to DEAD, whatever happens to the bus meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog
from everstep_contract.dead import DeadLetter

from everstep_bus.delivery import Delivery, dead_letter, dead_letter_id
from everstep_bus.errors import TransientBusError
from everstep_bus.timing import BURIALS, retry_delay_seconds

log = structlog.get_logger()

Publish = Callable[[DeadLetter, str], Awaitable[None]]
"""Publishes a letter under an id that makes a repeat harmless."""


async def bury(
    delivery: Delivery, reader: str, reason: str, *, at: datetime, publish: Publish
) -> None:
    """Publish the letter, in several attempts; never fails its reader, and never is silent."""
    letter = dead_letter(delivery, reader, "undecodable", reason, at)
    for attempt in range(1, BURIALS + 1):
        try:
            return await publish(letter, dead_letter_id(delivery, reader))
        except TransientBusError as error:
            log.warning("dead letter not published yet", subject=letter.subject, why=str(error))
            await asyncio.sleep(retry_delay_seconds(attempt))
    log.error("dead letter lost", subject=letter.subject, reader=reader, reason=reason)
    return None
