"""The peer port: agents look at each other, hand each other the newest order, and snapshots.

One JSON line asks, one JSON line answers, then the connection is closed (R9, R11); where the line
offers a snapshot, its bytes follow the answer, and a second answer them. It answers from the
agent's own loop, so a frozen agent is silent; a port without an agent is refused by the kernel.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final, Protocol

import structlog
from everstep_contract.base import Model, Name
from everstep_contract.identity import Endpoint
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember, ProbeOutcome, ProbeReply
from pydantic import Field

from everstep_trainer.agent.replicas import Incoming, Offer
from everstep_trainer.agent.sending import PIECE_SECONDS, take_in

MAX_LINE_BYTES: Final = 1 << 20
SERVE_SECONDS: Final = 5.0
"""How long one connection may take; who sends nothing must not hold it."""
MAX_CONNECTIONS: Final = 256
ASK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.02

log = structlog.get_logger()


class PeerRequest(Model):
    """An order that may be news to you, a snapshot to keep, or nothing: the answer is wanted."""

    order: Order | None = None
    offer: Offer | None = None


class PeerAnswer(Model):
    """Who answers, the newest order it has heard, and why it does not keep what was offered."""

    incarnation: Name
    order: Order | None = None
    refusal: str | None = Field(default=None, description="Empty: it is kept.")


class Keeper(Protocol):
    """The agent, as its peer port sees it."""

    @property
    def incarnation(self) -> str:
        """Who answers."""
        ...

    @property
    def order(self) -> Order | None:
        """The newest order it has heard."""
        ...

    def hear_peer(self, order: Order, host: str) -> None:
        """Take an order, and the address it came from."""
        ...

    def begin_to_keep(self, offer: Offer, host: str) -> Incoming | str:
        """A place for a peer's snapshot, by the address that offers it; or why there is none."""
        ...

    def end_to_keep(self, incoming: Incoming) -> None:
        """It has come, or never will."""
        ...


class PeerPort:
    """Answers other agents while this one lives."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one question, one answer."""
        if self._open >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(SERVE_SECONDS) as limit:
                request = PeerRequest.model_validate_json(await reader.readline())
                host = writer.get_extra_info("peername")[0]
                if request.order:
                    self._keeper.hear_peer(request.order, host)
                if request.offer:
                    limit.reschedule(None)  # each piece has a time of its own
                    await self._keep(request.offer, host, reader, writer)
                else:
                    await self._answer(writer)
        except (OSError, ValueError, EOFError) as error:
            why = str(error)[:200] or f"no question within {SERVE_SECONDS:g} s"
            log.info("peer connection dropped", why=why)
        finally:
            self._open -= 1
            writer.close()

    async def _keep(
        self, offer: Offer, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        incoming = self._keeper.begin_to_keep(offer, host)
        if isinstance(incoming, str):
            await self._answer(writer, incoming)
            return
        try:
            await self._answer(writer, "")
            await self._answer(writer, await take_in(incoming, reader.readexactly))
        finally:
            self._keeper.end_to_keep(incoming)

    async def _answer(self, writer: asyncio.StreamWriter, refusal: str | None = None) -> None:
        keeper = self._keeper
        answer = PeerAnswer(incarnation=keeper.incarnation, order=keeper.order, refusal=refusal)
        writer.write(answer.model_dump_json().encode() + b"\n")
        async with asyncio.timeout(SERVE_SECONDS):
            await writer.drain()


async def ask_peer(
    endpoint: Endpoint, order: Order | None, timeout_seconds: float, *, source: str | None = None
) -> PeerAnswer:
    """Offer an order to a peer, and hear its newest.

    Args:
        endpoint: Where the peer answers.
        order: What to offer, if anything.
        timeout_seconds: For all of it.
        source: Our own numeric address, by which the peer knows us.

    Raises:
        ConnectionRefusedError: A living kernel says that nobody listens there.
        TimeoutError: Nobody answered in time.
        OSError: There is no way to it, or it broke off.
        ValueError: What answered is no agent.
    """
    async with asyncio.timeout(timeout_seconds):
        reader, writer = await asyncio.open_connection(
            endpoint.host,
            endpoint.port,
            limit=MAX_LINE_BYTES,
            local_addr=(source, 0) if source else None,
        )
        try:
            request = PeerRequest(order=order)
            writer.write(request.model_dump_json(exclude_none=True).encode() + b"\n")
            await writer.drain()
            line = await reader.readline()
        finally:
            writer.close()
    if not line:
        raise ConnectionResetError(f"{endpoint} closed without an answer")
    return PeerAnswer.model_validate_json(line)


async def offer_shard(
    endpoint: Endpoint, offer: Offer, pieces: AsyncIterator[bytes], *, source: str
) -> str:
    """Have a peer keep a shard of a snapshot; why it does not, or nothing if it does.

    Args:
        endpoint: Where the peer answers.
        offer: What it is.
        pieces: Its bytes as they go over the network; what they raise ends it.
        source: Our own numeric address, by which the peer knows us.

    Raises:
        OSError: There is no way to it, it broke off, or it is too slow.
        ValueError: What answered is no agent.
    """
    async with asyncio.timeout(ASK_SECONDS):
        reader, writer = await asyncio.open_connection(
            endpoint.host, endpoint.port, limit=MAX_LINE_BYTES, local_addr=(source, 0)
        )
    try:
        await _send(writer, PeerRequest(offer=offer).model_dump_json(exclude_none=True).encode())
        await _send(writer, b"\n")
        refusal = await _refusal(reader)
        if refusal:
            return refusal
        async for piece in pieces:
            await _send(writer, piece)
        return await _refusal(reader)
    finally:
        writer.close()


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    async with asyncio.timeout(PIECE_SECONDS):
        await writer.drain()


async def _refusal(reader: asyncio.StreamReader) -> str:
    async with asyncio.timeout(PIECE_SECONDS):
        line = await reader.readline()
    if not line:
        raise ConnectionResetError("it closed without an answer")
    answer = PeerAnswer.model_validate_json(line)
    return "it does not know of snapshots" if answer.refusal is None else answer.refusal


async def probe(query: ProbeMember) -> ProbeReply:
    """Look at a member's peer port, again until it answers, is refused, or the time is up (R11).

    Refused is a living kernel's word that the agent is gone. Anything else that is no answer is
    silence: a reset may come from in between.
    """
    began = time.monotonic()
    outcome: ProbeOutcome = "silent"
    detail = ""
    with suppress(TimeoutError):
        async with asyncio.timeout(query.timeout_seconds):
            outcome, detail = await _look(query)
    return ProbeReply(
        target=query.target,
        outcome=outcome,
        witness=query.witness,
        seconds=time.monotonic() - began,
        detail=detail or f"no answer within {query.timeout_seconds:g} s",
    )


async def _look(query: ProbeMember) -> tuple[ProbeOutcome, str]:
    while True:
        try:
            answer = await ask_peer(query.endpoint, None, query.timeout_seconds)
        except ConnectionRefusedError:
            return "refused", f"{query.endpoint} refuses connections"
        except ValueError:
            return "silent", f"{query.endpoint} answers what no agent does"
        except OSError:
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        if answer.incarnation == query.target:
            return "alive", f"{query.endpoint} answered"
        return "other_incarnation", f"{query.endpoint} is {answer.incarnation}"
