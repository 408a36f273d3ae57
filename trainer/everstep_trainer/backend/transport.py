"""What the groups of one generation are connected through, and how that is cut.

gloo has no abort, but all that its waits hang on is TCP: shutting each connection down makes its
event loop see an end of file and fail those who wait. Sockets that merely appear while a group is
made may be the script's logger's, so they are not guessed: each gloo device has an epoll of its
own, and what is registered there is gloo's and nobody else's, while a group is still being
connected as well as later.
"""

import os
import re
from datetime import timedelta
from typing import Any, Final

import torch.distributed as dist
from torch._C._distributed_c10d import Store

from everstep_trainer.backend.errors import TransportError
from everstep_trainer.backend.sockets import Address, cut_watched, epolls, listener_of

_INTERFACES_VARIABLE: Final = "GLOO_SOCKET_IFNAME"
_THREADS_PER_DEVICE: Final = 2  # what torch gives a group of its own
_NAMED: Final = re.compile(r"\[([0-9a-fA-F.:]+)\]:\d+")


class GlooDevice:
    """One gloo device: a listening address, a thread, and the connections of every group on it.

    Keep it for as long as it may be cut: the number of its epoll is only its own while it lives.
    """

    def __init__(self, interface: str) -> None:
        gloo, before = dist.ProcessGroupGloo, epolls()
        self.device: Any = (
            gloo.create_device(interface=interface) if interface else gloo.create_default_device()
        )
        # another thread may open an epoll just now, but hardly one that listens as well
        found = [(epoll, listener_of(epoll)) for epoll in epolls() - before]
        listening = [(epoll, address) for epoll, address in found if address]
        if not listening:
            raise TransportError("gloo's event loop is not among this process's descriptors")
        self._epoll, self.address = listening[0]

    def cut(self) -> int:
        """Shut every connection down; the number of those that still were connected."""
        return cut_watched(self._epoll)


class Transport:
    """The devices of one generation: one on each interface of ``GLOO_SOCKET_IFNAME``, else one
    where this node's name leads.

    All groups of the generation share them, so one cut ends them all, they cost one thread
    together, and nothing is left behind once they are dropped.

    Args:
        construct_timeout: Longest that connecting one group may take.

    Raises:
        TransportError: The kernel does not say which sockets are gloo's (no Linux ``/proc``).
    """

    def __init__(self, construct_timeout: timedelta) -> None:
        names = os.environ.get(_INTERFACES_VARIABLE, "").split(",")
        self.construct_timeout = construct_timeout
        self._devices = [GlooDevice(name.strip()) for name in names]
        self._hosts: dict[int, str] = {}

    @property
    def addresses(self) -> list[Address]:
        """Where this rank's groups listen."""
        return [device.address for device in self._devices]

    def know(self, hosts: list[str]) -> None:
        """Remember where each rank of the generation is, in rank order."""
        self._hosts = dict(enumerate(hosts))

    def ranks_named_in(self, message: str) -> tuple[int, ...]:
        """Ranks on the node whose address stands in one of gloo's messages.

        By host, because the port is that of whoever happened to open the connection; so of this
        node's own ranks, which the message could mean as well, none is named.
        """
        hosts = set(_NAMED.findall(message)) - {host for host, _ in self.addresses}
        return tuple(rank for rank, host in sorted(self._hosts.items()) if host in hosts)

    def connect(self, store: Store, rank: int, size: int) -> dist.ProcessGroupGloo:
        """Connect this rank to every other of a group; blocks, at most the construct timeout for
        each of them."""
        gloo: Any = dist.ProcessGroupGloo  # torch's types do not tell all of it
        options = gloo._Options()
        options._devices = [device.device for device in self._devices]
        options._threads = _THREADS_PER_DEVICE * len(self._devices)
        options._timeout = self.construct_timeout
        group: dist.ProcessGroupGloo = gloo(store, rank, size, options)
        return group

    def cut(self) -> int:
        """Cut every connection of the generation; from any thread, again if need be."""
        return sum(device.cut() for device in self._devices)
