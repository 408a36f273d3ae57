"""Cutting exactly the connections that are meant."""

import os
import select
import socket
from collections.abc import Iterator

import pytest
from everstep_trainer.backend.sockets import cut_connections, cut_watched, epolls, listener_of

Connection = tuple[socket.socket, socket.socket]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def connection(server: socket.socket) -> Iterator[Connection]:
    mine = socket.create_connection(server.getsockname())
    theirs, _ = server.accept()
    with mine, theirs:
        yield mine, theirs


def is_cut(connection: Connection) -> bool:
    connection[0].setblocking(False)
    try:
        return connection[0].recv(1) == b""
    except BlockingIOError:
        return False


def test_cuts_the_connections_to_one_peer(server: socket.socket, connection: Connection) -> None:
    assert cut_connections(server.getsockname()) == 1
    assert is_cut(connection)


def test_leaves_connections_to_other_peers_alone(connection: Connection) -> None:
    assert cut_connections(("127.0.0.1", 1)) == 0
    assert not is_cut(connection)


def test_knows_a_peer_that_is_mapped_into_ipv6(server: socket.socket) -> None:
    host, port = server.getsockname()
    with socket.socket(socket.AF_INET6) as mine:
        mine.connect((f"::ffff:{host}", port))
        assert cut_connections((host, port)) == 1


def test_cuts_only_what_an_epoll_watches(server: socket.socket, connection: Connection) -> None:
    other = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    with other, accepted, select.epoll() as epoll:
        epoll.register(connection[0])
        assert cut_watched(epoll.fileno()) == 1
        assert is_cut(connection)
        assert not is_cut((other, accepted))


def test_never_cuts_the_socket_that_listens(server: socket.socket, connection: Connection) -> None:
    with select.epoll() as epoll:
        epoll.register(server)
        epoll.register(connection[0])
        assert cut_watched(epoll.fileno()) == 1
    socket.create_connection(server.getsockname()).close()


def test_cutting_what_is_gone_is_no_error(connection: Connection) -> None:
    with select.epoll() as epoll:
        epoll.register(connection[0])
        connection[1].close()
        cut_watched(epoll.fileno())
        assert cut_watched(epoll.fileno()) in (0, 1)  # the kernel may still hold half of it
        assert is_cut(connection)


def test_a_descriptor_that_was_reused_is_not_cut(
    server: socket.socket, connection: Connection
) -> None:
    watched = socket.create_connection(server.getsockname())
    copy = os.dup(watched.fileno())  # keeps it watched though its number becomes another's
    with select.epoll() as epoll:
        epoll.register(watched)
        number = watched.fileno()
        os.dup2(connection[0].fileno(), number)
        assert cut_watched(epoll.fileno()) == 0
        assert not is_cut(connection)
    os.close(copy)
    watched.close()


def test_an_epoll_that_is_closed_watches_nothing() -> None:
    with select.epoll() as epoll:
        number = epoll.fileno()
    assert cut_watched(number) == 0


def test_finds_an_epoll_and_the_address_that_is_listened_on_in_it(server: socket.socket) -> None:
    before = epolls()
    with select.epoll() as epoll:
        assert listener_of(epoll.fileno()) is None
        epoll.register(server)
        assert epolls() - before == {epoll.fileno()}
        assert listener_of(epoll.fileno()) == server.getsockname()
