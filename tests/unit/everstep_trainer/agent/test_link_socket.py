"""The agent's end of a worker's link."""

import asyncio
import socket

import pytest
from everstep_trainer.agent.link_socket import MAX_MISTAKES, MAX_UNREAD_BYTES, LinkSocket
from everstep_trainer.link import MAX_LINE_BYTES, Finish, Hello, Park, Parked, ToAgent, to_line
from support.polling import eventually


def link() -> tuple[LinkSocket, socket.socket, list[ToAgent]]:
    ours, theirs = socket.socketpair()
    heard: list[ToAgent] = []
    return LinkSocket(ours, heard.append), theirs, heard


async def test_messages_are_heard_in_order_however_they_are_cut() -> None:
    agent, worker, heard = link()
    sent: list[ToAgent] = [Hello(local_rank=0, pid=7), Parked(generation=3, version=-1)]
    stream = b"".join(to_line(message) for message in sent)
    for at in range(0, len(stream), 5):
        worker.sendall(stream[at : at + 5])
        await asyncio.sleep(0)
    await eventually(lambda: heard == sent)
    agent.close()
    worker.close()


async def test_what_is_no_message_is_passed_over() -> None:
    agent, worker, heard = link()
    worker.sendall(b'{"kind": "sabotage"}\nnot json\n' + to_line(Hello(local_rank=0, pid=7)))
    await eventually(lambda: heard)
    assert heard == [Hello(local_rank=0, pid=7)]
    agent.close()
    worker.close()


async def test_a_flood_of_what_is_no_message_closes_the_link() -> None:
    agent, worker, heard = link()
    flood = b"{}\n" * MAX_MISTAKES + to_line(Hello(local_rank=0, pid=7))
    worker.sendall(flood)
    worker.settimeout(0)
    assert await asyncio.get_running_loop().sock_recv(worker, 1) == b""
    agent.close()
    worker.close()
    assert heard == []


async def test_a_line_without_end_closes_the_link() -> None:
    agent, worker, heard = link()
    worker.settimeout(0)
    loop = asyncio.get_running_loop()
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        await loop.sock_sendall(worker, b"x" * (4 * MAX_LINE_BYTES))
    worker.close()
    agent.close()
    assert heard == []


async def test_a_worker_that_reads_late_misses_nothing() -> None:
    agent, worker, _ = link()
    messages = [Finish(reason="r" * 1000 + str(n)) for n in range(1000)]
    for message in messages:
        agent.send(message)
    wanted = b"".join(to_line(message) for message in messages)
    worker.settimeout(0)
    got = b""
    while len(got) < len(wanted):
        got += await asyncio.get_running_loop().sock_recv(worker, 1 << 16)
    assert got == wanted
    agent.close()
    worker.close()


async def test_a_worker_that_never_reads_costs_bounded_memory() -> None:
    agent, worker, _ = link()
    big = Finish(reason="r" * 100_000)
    for _ in range(3 * MAX_UNREAD_BYTES // 100_000):
        agent.send(big)
    assert agent.unread_bytes <= MAX_UNREAD_BYTES
    agent.close()
    worker.close()


async def test_last_words_are_heard_at_the_close() -> None:
    agent, worker, heard = link()
    worker.sendall(to_line(Parked(generation=1, version=4)))
    worker.close()
    agent.close()
    assert heard == [Parked(generation=1, version=4)]


async def test_a_gone_worker_and_a_closed_link_take_messages_in_silence() -> None:
    agent, worker, _ = link()
    worker.close()
    agent.send(Park(generation=1))
    agent.close()
    agent.send(Park(generation=2))
    agent.close()
    assert not agent.unread_bytes
