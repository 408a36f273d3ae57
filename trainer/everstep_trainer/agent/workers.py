"""The agent's workers and store host as processes: asked of the zygote, watched by pidfd."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from everstep_contract.identity import Endpoint

from everstep_trainer.agent import spawning
from everstep_trainer.agent.exits import classify, count_memory_kills, failure_of_zombie
from everstep_trainer.agent.inputs import (
    Input,
    StoreDied,
    StoreUp,
    WorkerDied,
    WorkerSaid,
    WorkerStarted,
    ZygoteLost,
)
from everstep_trainer.agent.link_socket import LinkSocket
from everstep_trainer.agent.memory import WorkerMemory
from everstep_trainer.agent.model import ExitStatus
from everstep_trainer.agent.spawning import Ended, Ready, Started, StoreRequest, WorkerRequest
from everstep_trainer.agent.zygote import Zygote
from everstep_trainer.link import ToAgent, ToWorker
from everstep_trainer.page import Page, PageView

STATUS_PATIENCE_SECONDS: Final = 5.0
"""How long a death seen by pidfd waits for the zygote to say how it came about, unless the kernel
says so. No haste: it was no failure, or the zygote is about to say which."""
_PORT_LINE_BYTES: Final = 16

log = structlog.get_logger()
Hear = Callable[[Input], None]


@dataclass
class _Process:
    """One child of the zygote: a worker's life, or the store host (no page, no link)."""

    id: int
    local_rank: int = -1
    life: int = 0
    pid: int = 0
    pidfd: int = -1
    page: Page | None = None
    link: LinkSocket | None = None
    signal_wanted: signal.Signals | None = None


@dataclass(frozen=True)
class Places:
    """Where workers find what they need: an address, a folder for their output, memory by rank."""

    host: str
    log_dir: str
    memory: tuple[WorkerMemory, ...]


class Workers:
    """Starts, tells, reads and signals processes; says what became of them through ``hear``."""

    def __init__(self, zygote: Zygote, hear: Hear, places: Places) -> None:
        self._zygote = zygote
        self._hear = hear
        self._places = places
        self._next_id = 0
        self._processes: dict[int, _Process] = {}
        self._unsent: list[tuple[WorkerRequest | StoreRequest, tuple[int, ...]]] = []
        self._memory_kills = count_memory_kills()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(zygote.control, self._read_zygote)

    def start_worker(self, local_rank: int, life: int, changes: dict[str, str | None]) -> None:
        """Ask for a worker; ``changes`` to the environment, None where a variable must go."""
        log_dir = self._places.log_dir
        ours, theirs = socket.socketpair()
        process = self._new(local_rank, life)
        process.page = Page.create(f"worker-{local_rank}")
        process.link = LinkSocket(ours, lambda message: self._heard(process, message))
        request = WorkerRequest(
            id=process.id,
            set={name: value for name, value in changes.items() if value is not None},
            unset=tuple(name for name, value in changes.items() if value is None),
            log_dir=str(Path(log_dir) / str(local_rank)) if log_dir else "",
        )
        memory = self._places.memory[local_rank]
        lasting = (process.page.fd, memory.state.fd, memory.rank.fd)
        self._ask(request, (theirs.detach(), *map(os.dup, lasting)))

    def start_store(self) -> None:
        """Ask for the store host; its port comes on a pipe."""
        read_end, write_end = os.pipe()
        process = self._new()
        self._loop.add_reader(read_end, self._read_port, read_end)
        self._ask(StoreRequest(id=process.id, host=self._places.host), (write_end,))

    def tell(self, local_rank: int, life: int, message: ToWorker) -> None:
        """Send a message to this life of a worker; dropped if it has ended."""
        process = self._find(local_rank, life)
        if process and process.link:
            process.link.send(message)

    def signal(self, local_rank: int, life: int, wanted: signal.Signals) -> None:
        """Signal this life of a worker, as soon as it has a process."""
        process = self._find(local_rank, life)
        if process:
            process.signal_wanted = wanted
            self._signal(process)

    def pages(self, count: int) -> tuple[PageView | None, ...]:
        """What the workers' pages say, by local rank; None where there is no worker."""
        seen = {p.local_rank: p.page.read() for p in self._processes.values() if p.page}
        return tuple(seen.get(rank) for rank in range(count))

    def vouch(self, generation: int) -> None:
        """Write on every page which generation its worker may step in."""
        for process in self._processes.values():
            if process.page:
                process.page.vouch(generation, time.monotonic_ns())

    def note_flush(self, seconds: float) -> None:
        """Write on every page how long a snapshot took to become durable."""
        for process in self._processes.values():
            if process.page:
                process.page.note_flush(seconds)

    def close(self) -> None:
        """Free what is ours. Closing the control socket ends the zygote and all its children."""
        for process in list(self._processes.values()):
            self._forget(process)
        self._loop.remove_reader(self._zygote.control)
        self._loop.remove_writer(self._zygote.control)
        self._zygote.control.close()

    def _new(self, local_rank: int = -1, life: int = 0) -> _Process:
        self._next_id += 1
        process = _Process(self._next_id, local_rank, life)
        self._processes[process.id] = process
        return process

    def _find(self, local_rank: int, life: int) -> _Process | None:
        wanted = (local_rank, life)
        processes = self._processes.values()
        return next((p for p in processes if (p.local_rank, p.life) == wanted), None)

    def _heard(self, process: _Process, message: ToAgent) -> None:
        self._hear(WorkerSaid(process.local_rank, process.life, message))

    def _ask(self, request: WorkerRequest | StoreRequest, descriptors: tuple[int, ...]) -> None:
        self._unsent.append((request, descriptors))
        self._send_unsent()

    def _send_unsent(self) -> None:
        """A zygote that still imports reads nothing; what does not fit waits for it."""
        while self._unsent:
            request, descriptors = self._unsent[0]
            try:
                spawning.send(self._zygote.control, request, descriptors)
            except BlockingIOError:
                self._loop.add_writer(self._zygote.control, self._send_unsent)
                return
            except OSError:  # the zygote is gone; reading says so
                pass
            for descriptor in descriptors:
                os.close(descriptor)
            del self._unsent[0]
        self._loop.remove_writer(self._zygote.control)

    def _read_zygote(self) -> None:
        try:
            received = spawning.receive(self._zygote.control)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self._loop.remove_reader(self._zygote.control)
            self._lose_zygote()
            return
        packet, descriptors = received
        match packet:
            case Ready():
                log.info("zygote is warm", seconds=packet.import_seconds, spawns=packet.why_spawn)
            case Started():
                self._note_start(packet, descriptors[0])
            case Ended():
                self._note_end(packet.id, packet.code, packet.signal)

    def _lose_zygote(self) -> None:
        """Its children die with it, and who was not born yet never will be."""
        self._hear(ZygoteLost("the zygote ended: no worker can be started"))
        for process in [p for p in self._processes.values() if p.pidfd < 0]:
            self._note_end(process.id, None, None)

    def _note_start(self, started: Started, pidfd: int) -> None:
        process = self._processes[started.id]
        process.pid, process.pidfd = started.pid, pidfd
        self._loop.add_reader(pidfd, self._see_death, process)
        self._signal(process)
        if process.page:
            self._hear(WorkerStarted(process.local_rank, process.life, process.pid))

    def _see_death(self, process: _Process) -> None:
        self._loop.remove_reader(process.pidfd)
        code, signal_number = failure_of_zombie(process.pid)
        known = code is not None or signal_number is not None
        patience = 0.0 if known else STATUS_PATIENCE_SECONDS
        self._loop.call_later(patience, self._note_end, process.id, code, signal_number)

    def _note_end(self, id_: int, code: int | None, signal_number: int | None) -> None:
        process = self._processes.get(id_)
        if process is None:
            return
        self._forget(process)
        if process.page is None:
            self._hear(StoreDied())
            return
        status = self._classify(code, signal_number)
        self._hear(WorkerDied(process.local_rank, process.life, status))

    def _classify(self, code: int | None, signal_number: int | None) -> ExitStatus:
        before, self._memory_kills = self._memory_kills, count_memory_kills()
        return classify(code, signal_number, out_of_memory=self._memory_kills > before)

    def _forget(self, process: _Process) -> None:
        """Last words first: what it wrote before its end is heard before its end is."""
        if process.link:
            process.link.close()
        if process.pidfd >= 0:
            self._loop.remove_reader(process.pidfd)
            os.close(process.pidfd)
        if process.page:
            process.page.close()
        del self._processes[process.id]

    def _signal(self, process: _Process) -> None:
        if process.signal_wanted is None or process.pidfd < 0:
            return
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process.pidfd, process.signal_wanted)

    def _read_port(self, pipe: int) -> None:
        line = os.read(pipe, _PORT_LINE_BYTES)
        self._loop.remove_reader(pipe)
        os.close(pipe)
        if line:
            self._hear(StoreUp(Endpoint(host=self._places.host, port=int(line))))
