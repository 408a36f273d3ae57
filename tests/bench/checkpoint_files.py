"""Checkpoints on their way to the disk and back, and out of memory: rates beside bare ones.

What is compared is measured in turns in one run: the disk is shared.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import torch
from bench.checkpoint_stall import Ours
from everstep_checkpoint.slots import SlotPair, Word
from everstep_checkpoint.storage import CHUNK_BYTES, write_shard
from everstep_trainer.agent import flusher
from everstep_trainer.library.agreement import Version
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.tree import unpack

LOOP_SECONDS: Final = 1.0

Pair = tuple[float, float]
"""Seconds of the bare way, and of ours."""


def newest(ours: Ours) -> tuple[SlotPair, int, Word]:
    """The slot that holds the newest snapshot."""
    pair = ours.slots[0]
    slot, word = pair.ready()[0]
    return pair, slot, word


def write_durably(ours: Ours, folder: Path, samples: int) -> list[Pair]:
    """A synced file of the same bytes, without and with hash, name and folder synced."""
    pair, slot, word = newest(ours)
    raw = bytes(os.pread(pair.fd, word.total_bytes, pair.place(slot)))

    def plain(number: int) -> None:
        with (folder / f"plain-{number}").open("xb", buffering=0) as file:
            for at in range(0, len(raw), CHUNK_BYTES):
                file.write(memoryview(raw)[at : at + CHUNK_BYTES])
            os.fsync(file.fileno())

    def hashed(number: int) -> None:
        buffer = memoryview(bytearray(CHUNK_BYTES))
        write_shard(folder, f"ours-{number}", pair.read(slot, word, buffer))

    pairs = []
    for number in range(samples):
        bare = seconds_of(partial(plain, number))
        pairs.append((bare, seconds_of(partial(hashed, number))))
        for file in folder.iterdir():
            file.unlink()
    return pairs


@contextmanager
def running_flusher() -> Iterator[socket.socket]:
    """The agent's own flusher, as a child of this process."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", flusher.__name__, str(os.getpid()), str(far.fileno())]
    process = subprocess.Popen(command, pass_fds=(far.fileno(),))
    far.close()
    try:
        yield near
    finally:
        near.close()
        process.wait(30)


def python_loop(while_true: Callable[[], bool]) -> float:
    """Turns a second of a loop that never lets go of the interpreter's lock."""
    began, turns = time.perf_counter(), 0
    while while_true():
        for _ in range(10_000):
            turns += 1
    return turns / (time.perf_counter() - began)


def loop_during_a_flush(ours: Ours, folder: Path, samples: int) -> list[Pair]:
    """Seconds a million turns of a Python loop: alone, and while the flusher writes."""
    pair, slot, word = newest(ours)
    pairs = []
    with running_flusher() as control:
        for number in range(samples):
            alone = python_loop(partial(_is_before, time.perf_counter() + LOOP_SECONDS))
            request = flusher.Request(slot, word, str(folder), f"flushed-{number}")
            socket.send_fds(control, [flusher.encode(request)], [pair.fd])
            during = python_loop(lambda: not _is_written(control))
            pairs.append((1e6 / alone, 1e6 / during))
            (folder / f"flushed-{number}").unlink()
    return pairs


def _is_before(end: float) -> bool:
    return time.perf_counter() < end


def _is_written(control: socket.socket) -> bool:
    control.setblocking(False)
    try:
        packet = flusher.decode(control.recv(flusher.MAX_PACKET_BYTES))
    except BlockingIOError:
        return False
    assert not isinstance(packet, flusher.Unwritten), packet
    return isinstance(packet, flusher.Written)


def restore_from_memory(ours: Ours, replica: Replica, samples: int) -> list[Pair]:
    """A bare copy of the bytes, and the way from a slot into the live objects."""
    pair, slot, word = newest(ours)
    version = Version(*word.version)
    source = torch.frombuffer(
        bytearray(os.pread(pair.fd, word.total_bytes, pair.place(slot))), dtype=torch.uint8
    )
    target = torch.zeros_like(source)

    def restore() -> None:
        packed = ours.snapshots.read_state(version)
        assert packed is not None
        replica.restore(unpack(packed))

    return [(seconds_of(lambda: target.copy_(source)), seconds_of(restore)) for _ in range(samples)]


def memory_times_shard(ours: Ours) -> float:
    """What the slots take, times one shard."""
    pair, _, word = newest(ours)
    return os.fstat(pair.fd).st_size / word.total_bytes


def seconds_of(call: Callable[[], object]) -> float:
    """By the wall clock."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
