"""Which ranks one of gloo's messages speaks of."""

from datetime import timedelta

import pytest
from everstep_trainer.backend.transport import Transport

RESET = "[pair.cc:537] Read error [{}]:13195: Connection reset by peer"


@pytest.fixture
def transport(monkeypatch: pytest.MonkeyPatch) -> Transport:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    made = Transport(timedelta(seconds=2))
    made.know(["127.0.0.1", "127.0.0.1", "192.0.2.7", "192.0.2.7", "192.0.2.8"])
    return made


def test_names_the_ranks_on_the_node_in_the_message(transport: Transport) -> None:
    assert transport.ranks_named_in(RESET.format("192.0.2.7")) == (2, 3)


def test_names_nobody_of_its_own_node_where_the_port_tells_nothing(transport: Transport) -> None:
    assert transport.ranks_named_in(RESET.format("127.0.0.1")) == ()


def test_names_nobody_when_the_message_names_no_node(transport: Transport) -> None:
    assert transport.ranks_named_in("Operation timed out!") == ()


def test_listens_on_each_interface_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo,lo")
    hosts = [host for host, _ in Transport(timedelta(seconds=2)).addresses]
    assert hosts == ["127.0.0.1", "127.0.0.1"]
