"""The zygote: a process that has imported torch, and forks workers and store hosts in milliseconds.

The agent forks it as its first act, while it has one thread and no torch; so the agent stays
small, and importing (2 to 40 s) goes on while it does everything else. The zygote itself does
nothing but wait, so that it can be forked at any moment. Everything dies with the agent: the
kernel kills the zygote with it, and the zygote's children with the zygote.
"""

import gc
import importlib
import os
import selectors
import signal
import socket
import sys
import time
from dataclasses import dataclass
from typing import Final, NoReturn

from everstep_trainer.agent import child, spawning
from everstep_trainer.agent.process import (
    close_descriptors,
    die_with,
    flush_streams,
    name_process,
    why_not_fork,
)
from everstep_trainer.agent.spawning import (
    Ended,
    Program,
    Ready,
    Started,
    StoreRequest,
    WorkerRequest,
)

PRELOAD: Final = ("torch", "torch._dynamo", "everstep")
"""What every worker imports: torch.optim and DDP pull torch._dynamo in lazily, at twice torch's
own cost. Anything more might start threads, and is the user's choice."""


@dataclass(frozen=True)
class Zygote:
    """The agent's end of it."""

    pid: int
    control: socket.socket


def start_zygote(program: Program, preload: tuple[str, ...] = PRELOAD) -> Zygote:
    """Fork the zygote. The calling process must have one thread, and should do nothing before."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    flush_streams()
    pid = os.fork()
    if pid == 0:
        _be_zygote(theirs, parent, program, preload)
    theirs.close()
    ours.settimeout(0)
    return Zygote(pid, ours)


def _be_zygote(
    control: socket.socket, parent: int, program: Program, preload: tuple[str, ...]
) -> NoReturn:
    status = 1
    try:
        die_with(parent)
        name_process("everstep-zygote")
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        close_descriptors({control.fileno()})
        _import(control, preload)
        _Server(control, program).serve()
        status = 0
    except ConnectionError:
        status = 0  # the agent is gone, and so are we
    except BaseException as error:  # noqa: BLE001 - told, and never into the agent's code
        sys.stderr.write(f"everstep: the zygote failed: {type(error).__name__}: {error}\n")
    finally:
        flush_streams()
        os._exit(status)


def _import(control: socket.socket, preload: tuple[str, ...]) -> None:
    """Import with one thread: numpy's BLAS would otherwise start a pool as it is loaded."""
    began = time.monotonic()
    pool = "OPENBLAS_NUM_THREADS"
    wanted = os.environ.get(pool)
    os.environ[pool] = "1"
    for module in preload:
        importlib.import_module(module)
    if wanted is None:
        del os.environ[pool]
    else:
        os.environ[pool] = wanted
    gc.collect()
    gc.freeze()  # children would copy every page that a collection touches
    spawning.send(control, Ready(time.monotonic() - began, why_not_fork()))


class _Server:
    """Forks on request, and tells who ended; a child is reaped only after it was told of."""

    def __init__(self, control: socket.socket, program: Program) -> None:
        self._control = control
        self._program = program
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def serve(self) -> None:
        """Until the agent closes its end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if not self._serve_request():
                        return
                else:
                    self._reap(key)

    def _serve_request(self) -> bool:
        received = spawning.receive(self._control)
        if received is None:
            return False
        request, descriptors = received
        assert isinstance(request, WorkerRequest | StoreRequest)
        try:
            pid = self._start(request, descriptors)
        except OSError as error:
            sys.stderr.write(f"everstep: cannot start a process: {error}\n")
            spawning.send(self._control, Ended(request.id, None, None))
            return True
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        pidfd = os.pidfd_open(pid)
        self._selector.register(pidfd, selectors.EVENT_READ, (request.id, pid))
        spawning.send(self._control, Started(request.id, pid), (pidfd,))
        return True

    def _start(self, request: WorkerRequest | StoreRequest, descriptors: tuple[int, ...]) -> int:
        if why_not_fork():
            return self._spawn(request, descriptors)
        parent = os.getpid()
        flush_streams()
        pid = os.fork()
        if pid == 0:
            die_with(parent)
            close_descriptors(descriptors)
            child.run(request, self._program, descriptors)
        return pid

    def _spawn(self, request: WorkerRequest | StoreRequest, descriptors: tuple[int, ...]) -> int:
        for descriptor in descriptors:
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no name
        arguments = child.spawn_arguments(request, self._program, descriptors)
        return os.posix_spawn(sys.executable, arguments, os.environ)

    def _reap(self, key: selectors.SelectorKey) -> None:
        id_, pid = key.data
        self._selector.unregister(key.fileobj)
        os.close(key.fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        ended = Ended(id_, code, None) if code >= 0 else Ended(id_, None, -code)
        spawning.send(self._control, ended)
