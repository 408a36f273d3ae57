"""The agent's end of its flusher: starts it, feeds it, keeps slots for it, and outlives it."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, assert_never

import structlog
from everstep_checkpoint.media import Key
from everstep_checkpoint.slots import SlotPair, Word
from everstep_checkpoint.storage import Storage

from everstep_trainer.agent import flusher
from everstep_trainer.agent.flusher import (
    HOLD_SECONDS,
    MAX_PACKET_BYTES,
    NICENESS,
    Progress,
    Request,
    Unwritten,
    Written,
    decode,
    encode,
)
from everstep_trainer.agent.inputs import Input, ShardUnwritten, ShardWritten
from everstep_trainer.agent.memory import Memory
from everstep_trainer.agent.model import Me
from everstep_trainer.agent.snapshots import Snapshot

RENEW_SECONDS: Final = 1.0
STUCK_SECONDS: Final = 120.0
"""Without progress for so long a flusher is killed: longer than a shared disk fails over."""
MAX_DEATHS: Final = 3
"""Of flushers over one shard, before the shard is given up."""
RESTART_SECONDS: Final = 0.2
RESTART_LIMIT_SECONDS: Final = 10.0
TIMER_SECONDS: Final = 1e-3
"""How much too early a timer of the loop may come."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Shelf:
    """Where one life of an agent puts its shards."""

    root: str
    me: Me

    @cached_property
    def storage(self) -> Storage:
        """Below the root."""
        return Storage(self.root)

    def place(self, snapshot: Snapshot) -> Key:
        """The folder of the attempt, and the shard's name in it, which tells its writer (R26)."""
        life = (self.me.job, self.me.member.job_uid)
        folder = self.storage.attempt(*life, snapshot.generation, snapshot.step)
        number = f"{snapshot.shard:05d}-of-{snapshot.shards:05d}"
        return folder / f"{snapshot.kind}-{number}-{self.me.incarnation}.safetensors"


@dataclass
class _Task:
    """One shard to write, with a hold on its memory of its own; how many flushers died over it."""

    snapshot: Snapshot
    pair: SlotPair
    slot: int
    word: Word
    keep_until: float
    not_before: float
    gentle: bool
    deaths: int = 0


@dataclass
class _Child:
    """One life of the flusher."""

    process: "subprocess.Popen[bytes]"
    control: socket.socket
    pidfd: int
    heard_at: float = field(default_factory=time.monotonic)


class Flushing:
    """Has one shard after the other written, the first come first; never waits for any of it."""

    def __init__(self, shelf: Shelf, memory: Memory, hear: Callable[[Input], None]) -> None:
        self._shelf = shelf
        self._memory = memory
        self._hear = hear
        self._tasks: deque[_Task] = deque()
        self._child: _Child | None = None
        self._is_writing = False
        self._pause = RESTART_SECONDS
        self._loop = asyncio.get_running_loop()
        self._restart: asyncio.TimerHandle | None = None
        self._renewal: asyncio.TimerHandle | None = None

    @property
    def pid(self) -> int:
        """Of the flusher's process; 0 while there is none."""
        return self._child.process.pid if self._child else 0

    def write(
        self,
        snapshot: Snapshot,
        keep_until: float,
        not_before: float = 0.0,
        *,
        gentle: bool = False,
    ) -> None:
        """Hold a snapshot where it is from now on, and have it written, at the earliest then.

        To start a flusher takes longer than some steps: what else is asked for now is held first.
        """
        found = self._memory.find(snapshot)
        if found is None:
            detail = "it was written over before it could be read"
            self._hear(ShardUnwritten(snapshot, "overwritten", detail))
            return
        pair, slot, word = found
        own = SlotPair(os.dup(pair.fd))
        task = _Task(snapshot, own, slot, word, keep_until, not_before, gentle)
        self._tasks.append(task)
        self._hold(task)
        self._renewal = self._renewal or self._loop.call_later(RENEW_SECONDS, self._renew)
        self._loop.call_at(not_before, self._go_on)

    def stop(self) -> None:
        """Write nothing more, and leave nothing behind but what the kernel still has in hand."""
        while self._tasks:
            self._let_go(self._tasks.popleft())
        for timer in (self._restart, self._renewal):
            if timer:
                timer.cancel()
        self._drop_child()

    def _go_on(self) -> None:
        if self._is_writing or not self._tasks or self._restart:
            return
        now = self._loop.time() + TIMER_SECONDS
        task = next((one for one in self._tasks if one.not_before <= now), None)
        if task is None:
            return  # each has a timer of its own
        self._tasks.remove(task)
        self._tasks.appendleft(task)
        key = self._shelf.place(task.snapshot)
        request = Request(task.slot, task.word, self._shelf.root, str(key), task.gentle)
        self._is_writing = True
        try:
            self._child = self._child or self._start()
        except OSError as error:
            self._lose_child(f"no flusher can be started: {error}")
            return
        self._child.heard_at = time.monotonic()
        with suppress(OSError):  # it died: its pidfd says so
            socket.send_fds(self._child.control, [encode(request)], [task.pair.fd])

    def _start(self) -> _Child:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(0)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", flusher.__name__, str(os.getpid()), str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        # from its birth: it is often first needed when the others are busy re-forming
        os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        child = _Child(process, ours, os.pidfd_open(process.pid))
        self._loop.add_reader(child.control, self._read, child)
        self._loop.add_reader(child.pidfd, self._see_death, child)
        return child

    def _read(self, child: _Child) -> None:
        try:
            data = child.control.recv(MAX_PACKET_BYTES)
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(child.control)  # its pidfd says the rest
            return
        child.heard_at = time.monotonic()
        packet = decode(data)
        match packet:
            case Progress():
                pass
            case Written() | Unwritten():
                self._pause = RESTART_SECONDS
                self._end(self._take(), packet)
                self._go_on()
            case Request():
                raise ValueError("a flusher asks for nothing")
            case _:
                assert_never(packet)

    def _take(self) -> _Task:
        self._is_writing = False
        return self._tasks.popleft()

    def _end(self, task: _Task, result: Written | Unwritten) -> None:
        snapshot = task.snapshot
        if isinstance(result, Unwritten):
            until = task.keep_until if result.trouble == "full" else 0.0
            self._let_go(task, until_ns=int(until * 1e9))
            self._hear(ShardUnwritten(snapshot, result.trouble, result.detail))
            return
        self._let_go(task)
        where = self._shelf.storage.where(self._shelf.place(snapshot))
        bytes_, digest = result.total_bytes, result.xxh3_128
        self._hear(ShardWritten(snapshot, where, bytes_, digest, result.seconds))

    def _see_death(self, child: _Child) -> None:
        """It is reaped here or by whoever reaps for this process."""
        self._loop.remove_reader(child.pidfd)
        os.close(child.pidfd)
        child.process.wait()
        if child is self._child:
            log.warning("flusher ended", status=child.process.returncode)
            self._lose_child(f"the flusher died {MAX_DEATHS} times over it")

    def _lose_child(self, detail: str) -> None:
        """Its shard is tried again by the next one, after a pause."""
        self._drop_child()
        if self._is_writing:
            task = self._take()
            task.deaths += 1
            if task.deaths < MAX_DEATHS:
                self._tasks.appendleft(task)
            else:
                self._end(task, Unwritten("unwritable", detail))
        self._restart = self._loop.call_later(self._pause, self._after_pause)
        self._pause = min(2 * self._pause, RESTART_LIMIT_SECONDS)

    def _after_pause(self) -> None:
        self._restart = None
        self._go_on()

    def _drop_child(self) -> None:
        if self._child is None:
            return
        child, self._child = self._child, None
        child.process.kill()
        self._loop.remove_reader(child.control)
        child.control.close()

    def _renew(self) -> None:
        """Slots that wait are kept; the one that is written is kept by who writes it."""
        self._renewal = None
        if not self._tasks:
            return
        for task in list(self._tasks)[self._is_writing :]:
            self._hold(task)
        if self._is_writing and self._child:
            silent_seconds = time.monotonic() - self._child.heard_at
            if silent_seconds > STUCK_SECONDS:
                self._tasks[0].deaths = MAX_DEATHS
                self._lose_child(f"nothing was written for {silent_seconds:.0f} s")
        self._renewal = self._loop.call_later(RENEW_SECONDS, self._renew)

    def _hold(self, task: _Task) -> None:
        until_ns = time.monotonic_ns() + int(HOLD_SECONDS * 1e9)
        task.pair.hold(task.slot, until_ns=until_ns)

    def _let_go(self, task: _Task, *, until_ns: int = 0) -> None:
        """Unless another save has its eye on the slot."""
        same = (task.snapshot.place, task.slot)
        if all((other.snapshot.place, other.slot) != same for other in self._tasks):
            task.pair.hold(task.slot, until_ns=until_ns)
        task.pair.close()
