"""A template that agents are forked from, so that a simulated pod starts in milliseconds.

`python -m everstep_trainer.template SOCKET` imports once what an agent and its workers need, says
"ready" on its standard output, and serves the protocol of `everstep_simcluster.launcher` on a Unix
socket. It has one thread, for it is forked at any moment. For machines of its own an agent is
started plainly: this is for many pods on one machine, where importing torch eight times takes 40 s.
"""

import argparse
import ctypes
import gc
import importlib
import json
import os
import random
import selectors
import signal
import socket
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

from everstep_trainer.agent.process import (
    close_descriptors,
    die_with,
    flush_streams,
    why_not_fork,
)
from everstep_trainer.agent.zygote import PRELOAD

COMMAND: Final = ["everstep", "run"]
"""What a request's command line must begin with."""
MAX_REQUEST_BYTES: Final = 1 << 20
_PRELOAD: Final = (*PRELOAD, "everstep_trainer.run", "everstep_trainer.agent.launch")
_CLONE_NEWNET: Final = 0x4000_0000
_READ_BYTES: Final = 1 << 16


@dataclass
class _Client:
    """One connection, and the processes started for it by process id (and so session id)."""

    stream: socket.socket
    received: bytearray = field(default_factory=bytearray)
    running: set[int] = field(default_factory=set)


class Template:
    """Serves requests until it is killed."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)

    def serve(self) -> NoReturn:
        """For ever."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, _Client):
                    self._read(key.data)
                else:
                    self._reap(key)

    def _accept(self) -> None:
        stream, _ = self._listener.accept()
        self._selector.register(stream, selectors.EVENT_READ, _Client(stream))

    def _read(self, client: _Client) -> None:
        try:
            data = client.stream.recv(_READ_BYTES)
        except OSError:
            data = b""
        client.received += data
        if not data or len(client.received) > MAX_REQUEST_BYTES:
            self._hang_up(client)
            return
        *lines, rest = bytes(client.received).split(b"\n")
        client.received = bytearray(rest)
        for line in lines:
            self._serve(client, json.loads(line))

    def _hang_up(self, client: _Client) -> None:
        self._selector.unregister(client.stream)
        client.stream.close()
        for pid in client.running:
            for kill in (os.killpg, os.kill):  # one just forked leads no session yet
                with suppress(ProcessLookupError):
                    kill(pid, signal.SIGKILL)

    def _serve(self, client: _Client, request: dict[str, Any]) -> None:
        why_not = why_not_fork()
        if request["argv"][: len(COMMAND)] != COMMAND:
            why_not = f"not {' '.join(COMMAND)!r}"
        if why_not:
            _tell(client, {"id": request["id"], "error": why_not})
            return
        parent = os.getpid()
        flush_streams()
        pid = os.fork()
        if pid == 0:
            _be_agent(request, parent)
        client.running.add(pid)
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, (client, pid))
        _tell(client, {"id": request["id"], "pid": pid})

    def _reap(self, key: selectors.SelectorKey) -> None:
        client, pid = key.data
        self._selector.unregister(key.fileobj)
        os.close(key.fd)
        client.running.discard(pid)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        _tell(client, {"pid": pid, "status": status})


def _tell(client: _Client, message: dict[str, Any]) -> None:
    with suppress(OSError):  # who hung up hears nothing
        client.stream.sendall(json.dumps(message).encode() + b"\n")


def _be_agent(request: dict[str, Any], parent: int) -> NoReturn:
    status = 1
    try:
        os.setsid()
        die_with(parent)
        _settle(request)
        from everstep_trainer.run import main  # imported already, under the template's environment

        status = main(request["argv"][len(COMMAND) :])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:  # noqa: BLE001 - told, and never into the template's code
        traceback.print_exc()
    finally:
        flush_streams()
        os._exit(status)


def _settle(request: dict[str, Any]) -> None:
    """Be where, and as whom, the request says."""
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for given, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(given, standard)
    close_descriptors(())
    if request["netns"]:
        _enter_network(request["netns"])
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    random.seed()


def _enter_network(path: str) -> None:
    namespace = os.open(path, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter the network namespace", path)
    os.close(namespace)


def main(argv: list[str]) -> NoReturn:
    """Import, listen, say so, serve."""
    parser = argparse.ArgumentParser(
        prog="python -m everstep_trainer.template", description=__doc__
    )
    parser.add_argument("socket", type=Path, help="path of the Unix socket to listen on")
    path = parser.parse_args(argv).socket
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")  # else numpy starts threads
    for module in _PRELOAD:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    Template(listener).serve()


if __name__ == "__main__":
    main(sys.argv[1:])
