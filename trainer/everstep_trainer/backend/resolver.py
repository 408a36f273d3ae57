"""Keep the name service out of connecting to a store.

torch asks for the name of every peer it connects to or accepts, for its log. An address of a pod
or of loopback mapped into IPv6 is in no hosts file, so the question goes to DNS, and each lost
answer stalls the connection for 5 s; on the side that accepts it stalls every client of the store.
Nobody needs those names, least of all while the network is in trouble.
"""

import contextlib
import ctypes


class _ResolverState(ctypes.Structure):
    """The first fields of glibc's ``struct __res_state``, which is part of its stable ABI."""

    _fields_ = (
        ("retrans", ctypes.c_int),
        ("retry", ctypes.c_int),
        ("options", ctypes.c_ulong),
        ("nscount", ctypes.c_int),
    )


def forget_name_servers_in_this_thread() -> None:
    """Make every DNS question of the calling thread fail at once; other threads are not touched.

    Without effect on a C library other than glibc, where connecting may be slow but still works.
    """
    with contextlib.suppress(AttributeError):
        library = ctypes.CDLL(None)
        library.__res_state.restype = ctypes.POINTER(_ResolverState)
        library.__res_init()
        library.__res_state().contents.nscount = 0


def forget_name_servers_in_this_process() -> None:
    """Look names up in the hosts file only; for a process that does nothing but host a store."""
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).__nss_configure_lookup(b"hosts", b"files")
