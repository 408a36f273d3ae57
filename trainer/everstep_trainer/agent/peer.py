"""The peer port: agents look at each other, and hand each other the newest order (R9, R11).

One JSON line asks, one JSON line answers, then the connection is closed. It answers from the
agent's own loop, so a frozen agent is silent; a port without an agent is refused by the kernel.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import structlog
from everstep_contract.base import Model, Name
from everstep_contract.identity import Endpoint
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember, ProbeOutcome, ProbeReply

MAX_LINE_BYTES: Final = 1 << 20
SERVE_SECONDS: Final = 5.0
"""How long one connection may take; who sends nothing must not hold it."""
MAX_CONNECTIONS: Final = 256
ASK_SECONDS: Final = 1.0
_RETRY_SECONDS: Final = 0.02

log = structlog.get_logger()


class PeerRequest(Model):
    """An order that may be news to you, or nothing: then only the answer is wanted."""

    order: Order | None = None


class PeerAnswer(Model):
    """Who answers, and the newest order it has heard."""

    incarnation: Name
    order: Order | None = None


class PeerPort:
    """Answers other agents while this one lives.

    Args:
        incarnation: Who answers.
        newest: The newest order it has heard.
        heard: Takes an order, and the address it came from.
    """

    def __init__(
        self,
        incarnation: str,
        newest: Callable[[], Order | None],
        heard: Callable[[Order, str], None],
    ) -> None:
        self._incarnation = incarnation
        self._newest = newest
        self._heard = heard
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: one question, one answer."""
        if self._open >= MAX_CONNECTIONS:
            writer.close()
            return
        self._open += 1
        try:
            async with asyncio.timeout(SERVE_SECONDS):
                await self._answer(reader, writer)
        except (OSError, ValueError) as error:
            why = str(error)[:200] or f"no question within {SERVE_SECONDS:g} s"
            log.info("peer connection dropped", why=why)
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = await reader.readline()
        request = PeerRequest.model_validate_json(line)
        if request.order:
            self._heard(request.order, writer.get_extra_info("peername")[0])
        answer = PeerAnswer(incarnation=self._incarnation, order=self._newest())
        writer.write(answer.model_dump_json().encode() + b"\n")
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
