"""Find sockets among this process's descriptors, and shut them down from any thread.

A descriptor's number can be another file's a moment later, so each is looked at through a copy,
which stays what it is, and compared by inode.
"""

import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_DESCRIPTORS: Final = Path("/proc/self/fd")
_WATCHED: Final = re.compile(r"^tfd:\s*(\d+) .*\bino:([0-9a-f]+)", re.MULTILINE)

Address = tuple[str, int]


def cut_connections(address: Address) -> int:
    """Shut down this process's connections to a peer; the number of those that were connected."""
    return sum(_shut(int(path.name), peer=address) for path in _DESCRIPTORS.iterdir())


def cut_watched(epoll: int) -> int:
    """Shut down every connection that an epoll watches; the number that were connected."""
    return sum(_shut(descriptor, inode=inode) for descriptor, inode in _watched(epoll))


def listener_of(epoll: int) -> Address | None:
    """The address of the listening socket that an epoll watches, if it watches one."""
    for descriptor, inode in _watched(epoll):
        with _socket_at(descriptor) as found:
            if found and _inode(found) == inode and _listens(found):
                host, port = found.getsockname()[:2]
                return host, port
    return None


def epolls() -> set[int]:
    """The epoll descriptors of this process."""
    found = set()
    for path in _DESCRIPTORS.iterdir():
        with contextlib.suppress(OSError):  # closed since it was listed
            if str(path.readlink()) == "anon_inode:[eventpoll]":
                found.add(int(path.name))
    return found


def _watched(epoll: int) -> list[tuple[int, int]]:
    """(descriptor, inode) of everything that an epoll watches; nothing once it is closed."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/self/fdinfo/{epoll}").read_text()
        return [(int(number), int(inode, 16)) for number, inode in _WATCHED.findall(lines)]
    return []


@contextlib.contextmanager
def _socket_at(descriptor: int) -> Iterator[socket.socket | None]:
    """A copy of the socket behind a descriptor; None if there is none."""
    copy = -1
    try:
        copy = os.dup(descriptor)
        found = socket.socket(fileno=copy)
    except OSError:
        if copy >= 0:
            os.close(copy)
        yield None
        return
    with found:
        yield found


def _inode(found: socket.socket) -> int:
    return os.fstat(found.fileno()).st_ino


def _listens(found: socket.socket) -> bool:
    with contextlib.suppress(OSError):
        return bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    return False


def _shut(descriptor: int, *, inode: int | None = None, peer: Address | None = None) -> bool:
    """Shut one connection down, provided it still is the one that is meant."""
    with _socket_at(descriptor) as found:
        if found is None or _listens(found) or (inode is not None and _inode(found) != inode):
            return False
        try:
            if peer and not _is_address(found.getpeername(), peer):
                return False
            found.shutdown(socket.SHUT_RDWR)
        except OSError:
            return False  # no longer connected
        return True


def _is_address(name: Any, address: Address) -> bool:
    """Whether a peer's name is this address, written as it is or mapped into IPv6."""
    if not isinstance(name, tuple) or name[1] != address[1]:
        return False
    host = ipaddress.ip_address(name[0])
    mapped = host.ipv4_mapped if isinstance(host, ipaddress.IPv6Address) else None
    return (mapped or host) == ipaddress.ip_address(address[0])
