"""Packets between an agent and its zygote."""

import os
import socket

import pytest
from everstep_trainer.agent.spawning import (
    Ended,
    Packet,
    Ready,
    Started,
    StoreRequest,
    WorkerRequest,
    decode,
    encode,
    receive,
    send,
)


@pytest.mark.parametrize(
    "packet",
    [
        WorkerRequest(1, {"A": "b"}, ("C",), "/logs/0"),
        StoreRequest(2, "127.0.0.1"),
        Ready(1.5, "2 threads"),
        Started(3, 4711),
        Ended(4, None, 9),
    ],
)
def test_a_packet_comes_back_as_it_was(packet: Packet) -> None:
    assert encode(decode(encode(packet))) == encode(packet)


def test_descriptors_arrive_as_ours_and_do_not_leak_into_what_is_executed() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read_end, write_end = os.pipe()
    with ours, theirs:
        send(ours, Started(1, 2), (write_end,))
        os.close(write_end)
        received = receive(theirs)
        assert received is not None
        packet, (descriptor,) = received
        assert packet == Started(1, 2)
        assert not os.get_inheritable(descriptor)
        os.write(descriptor, b"hello")
        os.close(descriptor)
    assert os.read(read_end, 10) == b"hello"
    os.close(read_end)


def test_the_end_of_the_other_side_is_no_packet() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        assert receive(theirs) is None
