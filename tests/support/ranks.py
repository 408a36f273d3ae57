"""Real worker processes for tests, forked from one that has imported torch already.

    with RankHouse() as house:
        ranks = house.start("support.programs:train", [{"rank": 0}, {"rank": 1}])
        ranks[0].tell(order="leave")
        ranks[0].until("left")
        ranks[1].signal(SIGKILL)

A program is ``def train(link: Link, **settings)``. Both sides speak JSON lines; what a rank says is
an event with a name. Nothing outlives the house: ranks die with the process that forked them, and
that with the house.
"""

import contextlib
import ctypes
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

UNTIL_SECONDS = 60.0
"""Bound of every wait for an event: generous, because nothing is asserted about time."""

ENVIRONMENT = {
    "GLOO_SOCKET_IFNAME": "lo",
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}

_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_LINE_BYTES = 1 << 16
_MAX_DESCRIPTORS = 8

Event = dict[str, Any]


class Link:
    """One end of a socket that carries JSON lines."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._lines = end.makefile("rb")

    def say(self, event: str, **more: Any) -> None:
        self._end.sendall(
            json.dumps({"event": event, "at": time.monotonic(), **more}).encode() + b"\n"
        )

    def hear(self) -> Iterator[Any]:
        """Everything that is said to this end, until the other end closes."""
        with contextlib.suppress(OSError):
            for line in self._lines:
                yield json.loads(line)


class Rank:
    """A running worker, as its test sees it."""

    def __init__(self, pid: int, end: socket.socket) -> None:
        self.pid = pid
        self.events: list[Event] = []
        self._end = end
        self._unread = b""
        self._pidfd = os.pidfd_open(pid)

    def tell(self, **message: Any) -> None:
        self._end.sendall(json.dumps(message).encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def alive(self) -> bool:
        return not select.select([self._pidfd], [], [], 0)[0]

    def until(self, event: str, **like: Any) -> Event:
        """The first event of this name with these values, said already or within the bound."""
        return self.until_either(event, **like)

    def until_either(self, *events: str, **like: Any) -> Event:
        """The same, for the first event of one of these names."""
        deadline = time.monotonic() + UNTIL_SECONDS
        seen = 0
        while True:
            for said in self.events[seen:]:
                if said["event"] in events and like.items() <= said.items():
                    return said
                assert said["event"] != "crashed" or "crashed" in events, said["error"]
            seen = len(self.events)
            left = deadline - time.monotonic()
            assert left > 0, f"no {events} {like} from {self.pid}; it said {self.events[-5:]}"
            assert self._read(left), f"{self.pid} is gone before {events} {like}"

    def said(self, event: str, **like: Any) -> list[Event]:
        """What has been said so far."""
        while self._read(0.0):
            pass
        return [e for e in self.events if e["event"] == event and like.items() <= e.items()]

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        self._end.close()
        os.close(self._pidfd)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._end], [], [], seconds)[0]:
            return seconds > 0
        received = self._end.recv(_LINE_BYTES)
        *lines, self._unread = (self._unread + received).split(b"\n")
        self.events += [json.loads(line) for line in lines]
        return bool(received)


class RankHouse:
    """A process that has imported torch, from which ranks are forked in some milliseconds."""

    def __init__(self) -> None:
        self._ranks: list[Rank] = []
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._end, inner = socket.socketpair()
        with inner:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(inner.fileno())],
                pass_fds=[inner.fileno()],
                env={**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(sys.path)},
                stderr=self._errors,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self, program: str, settings: list[dict[str, Any]]) -> list[Rank]:
        """One process for each of the settings; they run ``program(link, **settings)``."""
        return [self.start_with(program, [], **each) for each in settings]

    def start_with(self, program: str, descriptors: list[int], **settings: Any) -> Rank:
        """One process that inherits these too, as ``descriptors`` among its settings."""
        rank = self._start(program, settings, descriptors)
        self._ranks.append(rank)
        return rank

    def end_ranks(self) -> None:
        """Kill what was started, frozen or not; the house stays."""
        for rank in self._ranks:
            rank.close()
        self._ranks = []

    def close(self) -> None:
        self.end_ranks()
        self._end.close()
        self._process.wait(UNTIL_SECONDS)
        self._errors.close()

    def errors(self) -> str:
        """What the ranks wrote to stderr so far."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def _start(self, program: str, settings: dict[str, Any], descriptors: list[int]) -> Rank:
        outer, inner = socket.socketpair()
        request = json.dumps({"program": program, "settings": settings}).encode()
        with inner:
            socket.send_fds(self._end, [request], [inner.fileno(), *descriptors])
        answer = self._end.recv(_LINE_BYTES)
        assert answer, f"the house is gone: {self.errors()}"
        return Rank(int(answer), outer)


def _house(end: socket.socket) -> None:
    """Fork a rank for each request until the other end closes."""
    _die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are not waited for
    for name in ("torch", "torch._dynamo", "torch.distributed.fsdp"):
        importlib.import_module(name)
    while True:
        request, descriptors, _, _ = socket.recv_fds(end, _LINE_BYTES, _MAX_DESCRIPTORS)
        if not request:
            return
        pid = os.fork()
        if pid == 0:
            end.close()
            _run(socket.socket(fileno=descriptors[0]), json.loads(request), descriptors[1:])
        for descriptor in descriptors:
            os.close(descriptor)
        end.sendall(str(pid).encode())


def _run(end: socket.socket, request: Any, descriptors: list[int]) -> None:
    """Be a rank; never returns."""
    _die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    link, status = Link(end), 1
    given = {"descriptors": descriptors} if descriptors else {}
    try:
        module, _, name = request["program"].partition(":")
        getattr(importlib.import_module(module), name)(link, **request["settings"], **given)
        status = 0
    except BaseException:  # noqa: BLE001 - a test wants to see whatever it was
        with contextlib.suppress(OSError):
            link.say("crashed", error=traceback.format_exc())
    finally:
        os._exit(status)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # or this folder's modules would shadow others
    _house(socket.socket(fileno=int(sys.argv[1])))
