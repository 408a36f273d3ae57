"""Request and reply on the twin."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from everstep_bus.memory.connections import Link
from everstep_bus.timing import WAITING_QUERIES

Answer = tuple[Mapping[str, str], bytes]


@dataclass(frozen=True)
class Asked:
    """A query on its way, and where its reply is awaited."""

    subject: str
    headers: Mapping[str, str]
    payload: bytes
    answer: asyncio.Future[Answer]


@dataclass(frozen=True)
class Responder:
    """One client that serves a subject."""

    link: Link
    waiting: asyncio.Queue[Asked] = field(
        default_factory=lambda: asyncio.Queue(maxsize=WAITING_QUERIES)
    )
