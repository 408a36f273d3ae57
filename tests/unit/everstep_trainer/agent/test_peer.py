"""The peer port: what a probe finds, and how orders travel without the bus."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from everstep_contract.identity import Endpoint
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember
from everstep_trainer.agent import peer
from everstep_trainer.agent.peer import MAX_LINE_BYTES, PeerPort, ask_peer, probe
from everstep_trainer.agent.replicas import Incoming, Offer, Replicas
from structlog.testing import capture_logs
from support.agent_core import make_order
from support.messages import JOB

HERE = "127.0.0.1"
LIMIT_BYTES = 1 << 20


class Listener:
    """An agent, as far as its peer port needs one."""

    def __init__(self, incarnation: str, order: Order | None, replicas: Replicas) -> None:
        self.incarnation = incarnation
        self.order = order
        self.heard: list[Order] = []
        self.replicas = replicas

    def hear_peer(self, order: Order, _host: str) -> None:
        self.heard.append(order)

    def begin_to_keep(self, offer: Offer, _host: str) -> Incoming | str:
        return self.replicas.begin(offer)

    def end_to_keep(self, incoming: Incoming) -> None:
        self.replicas.end(incoming)


@asynccontextmanager
async def listening(
    incarnation: str,
    newest: Order | None = None,
    heard: list[Order] | None = None,
    replicas: Replicas | None = None,
) -> AsyncIterator[Endpoint]:
    listener = Listener(incarnation, newest, replicas or Replicas(LIMIT_BYTES))
    listener.heard = heard if heard is not None else []
    port = PeerPort(listener)
    async with await asyncio.start_server(port.serve, HERE, 0, limit=MAX_LINE_BYTES) as server:
        yield Endpoint(host=HERE, port=server.sockets[0].getsockname()[1])


def question(endpoint: Endpoint, target: str = "target.1", seconds: float = 5) -> ProbeMember:
    return ProbeMember(
        job=JOB, witness="witness.1", target=target, endpoint=endpoint, timeout_seconds=seconds
    )


def free_endpoint() -> Endpoint:
    with socket.create_server((HERE, 0)) as closed:
        return Endpoint(host=HERE, port=closed.getsockname()[1])


async def test_r11_a_living_agent_answers_a_probe() -> None:
    async with listening("target.1") as endpoint:
        assert (await probe(question(endpoint))).outcome == "alive"


async def test_r11_a_living_kernel_refuses_for_an_agent_that_is_gone() -> None:
    assert (await probe(question(free_endpoint()))).outcome == "refused"


async def test_r2_another_incarnation_at_the_port_is_told() -> None:
    async with listening("target.2") as endpoint:
        reply = await probe(question(endpoint))
    assert reply.outcome == "other_incarnation"
    assert "target.2" in reply.detail


async def test_r11_a_port_that_never_answers_is_silent_within_the_time_given() -> None:
    with socket.create_server((HERE, 0)) as mute:
        endpoint = Endpoint(host=HERE, port=mute.getsockname()[1])
        async with asyncio.timeout(5):
            reply = await probe(question(endpoint, seconds=0.05))
    assert reply.outcome == "silent"


async def test_r11_a_connection_that_breaks_off_proves_nothing() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async with await asyncio.start_server(hang_up, HERE, 0) as server:
        endpoint = Endpoint(host=HERE, port=server.sockets[0].getsockname()[1])
        assert (await probe(question(endpoint, seconds=0.1))).outcome == "silent"


async def test_an_answer_that_no_agent_gives_proves_nothing() -> None:
    async def chatter(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\n")
        writer.close()

    async with await asyncio.start_server(chatter, HERE, 0) as server:
        endpoint = Endpoint(host=HERE, port=server.sockets[0].getsockname()[1])
        assert (await probe(question(endpoint))).outcome == "silent"


async def test_r9_an_offered_order_is_heard_and_answered_with_the_newest() -> None:
    heard: list[Order] = []
    async with listening("peer.1", make_order(7), heard) as endpoint:
        answer = await ask_peer(endpoint, make_order(5), 5)
    assert [order.generation for order in heard] == [5]
    assert answer.order is not None
    assert answer.order.generation == 7


@pytest.mark.parametrize("line", [b"\n", b"{}x\n", b'{"order": 3}\n', b"x" * (2 * MAX_LINE_BYTES)])
async def test_nonsense_ends_its_connection_and_nothing_else(line: bytes) -> None:
    heard: list[Order] = []
    async with listening("peer.1", None, heard) as endpoint:
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
        writer.write(line)
        async with asyncio.timeout(10):
            with suppress(ConnectionResetError):  # it closed with our bytes unread
                assert await reader.read() == b""
        writer.close()
        assert (await ask_peer(endpoint, None, 5)).incarnation == "peer.1"
    assert heard == []


async def test_who_says_nothing_does_not_keep_others_from_being_answered() -> None:
    async with listening("peer.1") as endpoint:
        idle = [await asyncio.open_connection(endpoint.host, endpoint.port) for _ in range(20)]
        assert (await ask_peer(endpoint, None, 5)).incarnation == "peer.1"
        for _, writer in idle:
            writer.close()


async def test_who_connects_and_asks_nothing_is_dropped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peer, "SERVE_SECONDS", 0.05)
    async with listening("target.1") as endpoint:
        with capture_logs() as logs:
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            assert await reader.read() == b""
            writer.close()
    assert [line["why"] for line in logs] == ["no question within 0.05 s"]
