"""The system account's view of the servers: advisories, and the inventory of connections (R10)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import structlog
from nats.aio.msg import Msg

from everstep_bus.errors import TransientBusError
from everstep_bus.interface import Connected, Connection, Disconnected
from everstep_bus.nats.feed import subscribed
from everstep_bus.nats.link import FIRST_BACKOFF_SECONDS, Address, Link, open_link
from everstep_bus.nats.session import Session

INBOX_PREFIX: Final = "_INBOX.system"
ADVISORIES: Final = "$SYS.ACCOUNT.*.*"
PAGE: Final = 1024
"""Connections a page; nats-server's own default."""
GATHER_SECONDS: Final = 1.0
"""How long servers may take to answer when asked all at once."""

log = structlog.get_logger()


class NatsServerEvents:
    """`ServerEvents` over a link of the system account."""

    def __init__(self, link: Link, page: int = PAGE) -> None:
        self._link = link
        self._page = page

    @property
    def connected(self) -> bool:
        return self._link.connected

    async def advisories(self) -> AsyncIterator[Connected | Disconnected]:
        while True:
            session = await self._link.session()
            try:
                async with subscribed(session, ADVISORIES) as feed:
                    while True:
                        message = await feed.next()
                        advisory = _advisory(message) if message else None
                        if advisory is not None:
                            yield advisory
            except TransientBusError:
                await asyncio.sleep(FIRST_BACKOFF_SECONDS)

    async def connections(self) -> tuple[Connection, ...]:
        session = self._link.require()
        first = await self._ask_all(session, "CONNZ", self._window(0))
        found: list[Connection] = []
        for answer in first:
            found.extend(_listed(answer))
            found.extend(await self._further_pages(session, answer))
        return tuple(found)

    def _window(self, offset: int) -> dict[str, int]:
        return {"limit": self._page, "offset": offset}

    async def _further_pages(
        self, session: Session, first: dict[str, Any]
    ) -> tuple[Connection, ...]:
        """The rest of one server's list. Who connects meanwhile may be seen twice or not yet."""
        found: list[Connection] = []
        server_id, page = first["data"]["server_id"], first
        offset = self._page
        while offset < page["data"]["total"]:
            subject = f"$SYS.REQ.SERVER.{server_id}.CONNZ"
            async with session.call("connection list"):
                reply = await session.client.request(
                    subject, json.dumps(self._window(offset)).encode(), timeout=GATHER_SECONDS
                )
            page = json.loads(reply.data)
            found.extend(_listed(page))
            offset += self._page
        return tuple(found)

    async def _ask_all(
        self, session: Session, what: str, request: dict[str, int]
    ) -> list[dict[str, Any]]:
        """Every server's answer; waits no longer than until all that are active have answered."""
        async with session.call("active servers"):
            status = await session.client.request("$SYS.REQ.SERVER.PING", b"", GATHER_SECONDS)
        active = json.loads(status.data)["statsz"].get("active_servers", 1)
        inbox = session.client.new_inbox()
        answers: list[dict[str, Any]] = []
        deadline = asyncio.get_running_loop().time() + GATHER_SECONDS
        async with subscribed(session, inbox) as feed:
            async with session.call("ask all servers"):
                subject = f"$SYS.REQ.SERVER.PING.{what}"
                await session.client.publish(subject, json.dumps(request).encode(), reply=inbox)
            while len(answers) < active:
                message = await feed.next(deadline - asyncio.get_running_loop().time())
                if message is None:
                    break
                answers.append(json.loads(message.data))
        if not answers:
            raise TransientBusError("no server told its connections")
        return answers


@asynccontextmanager
async def connect_server_events(
    urls: tuple[str, ...], client_name: str, *, seed_path: Path | None, page: int = PAGE
) -> AsyncIterator[NatsServerEvents]:
    """A connection of the system account, kept until the context is left; as `connect`."""
    async with open_link(Address(urls, client_name, INBOX_PREFIX, seed_path)) as link:
        yield NatsServerEvents(link, page)


def _listed(answer: dict[str, Any]) -> list[Connection]:
    server_id = answer["data"]["server_id"]
    listed = answer["data"].get("connections") or []
    return [Connection(server_id, one["cid"], one.get("name", "")) for one in listed]


def _advisory(message: Msg) -> Connected | Disconnected | None:
    """The advisory, or None for the other events that servers publish there."""
    kind = message.subject.rpartition(".")[2]
    if kind not in ("CONNECT", "DISCONNECT"):
        return None
    try:
        told = json.loads(message.data)
        client = told["client"]
        connection = Connection(told["server"]["id"], client["id"], client.get("name", ""))
        return (
            Connected(connection) if kind == "CONNECT" else Disconnected(connection, told["reason"])
        )
    except (ValueError, KeyError) as error:
        log.error("advisory not understood", subject=message.subject, why=str(error))
        return None
