"""The store where a generation meets: hosting one, and keeping one client of each.

A store lives in a process of an agent that does nothing else (R17). It takes whatever port is free
and says which, so nobody can be in its place; no address comes from the launcher's environment.
"""

import socket
import threading
from datetime import timedelta
from typing import Final

from torch._C._distributed_c10d import TCPStore

from everstep_trainer.backend.ending import Ending
from everstep_trainer.backend.errors import StoreUnreachableError
from everstep_trainer.backend.resolver import (
    forget_name_servers_in_this_process,
    forget_name_servers_in_this_thread,
)
from everstep_trainer.backend.sockets import Address, cut_connections

CONNECT_TIMEOUT: Final = timedelta(seconds=2)
"""Longest that torch goes on trying to connect, but for one more try after a pause."""

KEPT: Final = 8
"""Clients kept, those that were used last: the others are of members long gone."""

_PAUSE: Final = timedelta(seconds=4)
_BACKLOG: Final = 1024
_ANY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - given, not chosen


def host_store(host: str) -> TCPStore:
    """Host a store on ``host`` and a free port, which ``.port`` tells, until it is dropped.

    For a process of its own: it stops this process's questions to DNS, which the store would
    otherwise ask about every client while the others wait.

    Args:
        host: Numeric address to listen on.
    """
    forget_name_servers_in_this_process()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, 0), family=family, backlog=_BACKLOG)
    return TCPStore(
        _ANY_ADDRESS.get(host, host),
        listener.getsockname()[1],
        is_master=True,
        timeout=CONNECT_TIMEOUT,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


class StoreClient:
    """One connection to one store; good until it is cut or its store dies."""

    def __init__(self, address: Address, store: TCPStore) -> None:
        self.address = address
        self.store = store
        self.usable = True

    def cut(self) -> None:
        """Make whatever call waits for the store fail, from any thread; it cannot be used again."""
        self.usable = False
        cut_connections(self.address)


class StoreClients:
    """This process's clients, one for each store, connected once and kept.

    Connect to every store that an order names as soon as it is known: when one of them is needed,
    its predecessor has just died. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connecting: dict[Address, threading.Lock] = {}
        self._clients: dict[Address, StoreClient] = {}

    def get(self, host: str, port: int, ending: Ending) -> StoreClient:
        """The client of this store, connected now if need be.

        Raises:
            GenerationEnded: The generation ended meanwhile; the connecting goes on for the next.
            StoreUnreachableError: Nobody answers there.
        """
        try:
            limit = 2 * CONNECT_TIMEOUT + _PAUSE
            return ending.run(lambda: self.connect(host, port), "store connection", limit)
        except TimeoutError as error:
            raise StoreUnreachableError(host, port, str(error)) from error

    def connect(self, host: str, port: int) -> StoreClient:
        """The client of this store; blocks while it connects, so not for a training thread.

        Raises:
            StoreUnreachableError: Nobody answers there.
        """
        with self._lock:
            turn = self._connecting.setdefault((host, port), threading.Lock())
        with turn:
            with self._lock:
                client = self._clients.pop((host, port), None)
            if client is None or not client.usable:
                client = _connect(host, port)
            with self._lock:
                self._clients[host, port] = client  # the last one is the one used last
                for address in list(self._clients)[:-KEPT]:
                    del self._clients[address]
            return client


def _connect(host: str, port: int) -> StoreClient:
    try:
        numeric = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4][0]
        forget_name_servers_in_this_thread()
        store = TCPStore(str(numeric), port, is_master=False, timeout=CONNECT_TIMEOUT)
    except (OSError, RuntimeError) as error:
        detail = str(error).partition("\n")[0]
        raise StoreUnreachableError(host, port, detail) from error
    return StoreClient((str(numeric), port), store)
