"""Clients of stores: one each, connected once, replaced when they are cut."""

import socket

import pytest
from everstep_trainer.backend import Ending, StoreClients, StoreUnreachableError
from everstep_trainer.backend import store as stores
from torch._C._distributed_c10d import TCPStore


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> TCPStore:
    # this process goes on to run other tests, so its name service stays as it is
    monkeypatch.setattr(stores, "forget_name_servers_in_this_process", lambda: None)
    return stores.host_store("127.0.0.1")


def test_a_store_is_bound_before_its_port_is_told(hosted: TCPStore) -> None:
    with socket.socket() as squatter, pytest.raises(OSError, match="in use"):
        squatter.bind(("127.0.0.1", hosted.port))


def test_a_store_listens_where_it_was_told_to_and_nowhere_else(hosted: TCPStore) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", hosted.port))


def test_one_client_is_kept_for_each_store(hosted: TCPStore) -> None:
    clients = StoreClients()
    first = clients.get("127.0.0.1", hosted.port, Ending(1))
    assert clients.get("127.0.0.1", hosted.port, Ending(2)) is first


def test_a_client_that_was_cut_is_replaced(hosted: TCPStore) -> None:
    clients = StoreClients()
    first = clients.connect("localhost", hosted.port)
    first.cut()
    with pytest.raises(RuntimeError):
        first.store.check(["key"])
    second = clients.connect("localhost", hosted.port)
    second.store.set("key", "value")
    assert second.store.get("key") == b"value"


def test_the_client_that_was_not_used_for_longest_is_dropped(hosted: TCPStore) -> None:
    clients = StoreClients()
    first = clients.connect("127.0.0.1", hosted.port)
    others = [stores.host_store("127.0.0.1") for _ in range(stores.KEPT)]
    newer = [clients.connect("127.0.0.1", other.port) for other in others]
    assert clients.connect("127.0.0.1", others[1].port) is newer[1]
    assert clients.connect("127.0.0.1", hosted.port) is not first


def test_a_name_that_does_not_resolve_is_an_unreachable_store() -> None:
    with pytest.raises(StoreUnreachableError, match=r"no store answers at no-such-name\.invalid:1"):
        StoreClients().connect("no-such-name.invalid", 1)
