"""What an agent and its zygote say to each other: JSON packets on a Unix socket, with descriptors.

The zygote inherits the agent's environment and program; a request names only what differs.
"""

import array
import json
import socket
from dataclasses import asdict, dataclass, field
from typing import Any, Final

MAX_PACKET_BYTES: Final = 64 * 1024
MAX_DESCRIPTORS: Final = 4


@dataclass(frozen=True)
class Program:
    """What workers run: a script's path, or a module's name if ``module``."""

    target: str
    args: tuple[str, ...] = ()
    module: bool = False


@dataclass(frozen=True)
class WorkerRequest:
    """Fork a worker; with it go the descriptors of its link, its page and its snapshots' memory."""

    id: int
    set: dict[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()
    log_dir: str = ""


@dataclass(frozen=True)
class StoreRequest:
    """Fork a store host on a numeric address; with it goes the pipe that its port is told on."""

    id: int
    host: str


@dataclass(frozen=True)
class Ready:
    """The imports are done. ``why_spawn``: children are spawned, not forked, for this reason."""

    import_seconds: float
    why_spawn: str


@dataclass(frozen=True)
class Started:
    """The child lives; with it goes its pidfd."""

    id: int
    pid: int


@dataclass(frozen=True)
class Ended:
    """The child ended, or could not be started: then neither code nor signal is known."""

    id: int
    code: int | None
    signal: int | None


Packet = WorkerRequest | StoreRequest | Ready | Started | Ended
_KINDS: Final[dict[str, type[Packet]]] = {
    kind.__name__: kind for kind in (WorkerRequest, StoreRequest, Ready, Started, Ended)
}


def encode(packet: Packet) -> bytes:
    """One packet's bytes."""
    return json.dumps({"kind": type(packet).__name__, **asdict(packet)}).encode()


def decode(data: bytes) -> Packet:
    """The packet that `encode` made; both ends are one program, so nothing else comes."""
    fields: dict[str, Any] = json.loads(data)
    return _KINDS[fields.pop("kind")](**fields)


def send(control: socket.socket, packet: Packet, descriptors: tuple[int, ...] = ()) -> None:
    """Send one packet with copies of these descriptors.

    Raises:
        OSError: The other side is gone, or (`BlockingIOError`) has too much to read.
    """
    socket.send_fds(control, [encode(packet)], descriptors)


def receive(control: socket.socket) -> tuple[Packet, tuple[int, ...]] | None:
    """One packet and the descriptors that came with it, now ours to close; None at the end."""
    size = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
    data, ancillary, _, _ = control.recvmsg(MAX_PACKET_BYTES, size, socket.MSG_CMSG_CLOEXEC)
    if not data:
        return None
    descriptors = array.array("i")
    for level, kind, payload in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(payload)
    return decode(data), tuple(descriptors)
