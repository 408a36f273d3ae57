"""What making a snapshot durable costs: time beside a plain write, and a busy trainer's pace.

The same bytes are written in turns: as a plain file that is synced, and by the flusher, which
hashes them on the way. A loop of Python that needs the interpreter for itself runs meanwhile.
"""

import asyncio
import os
import time
from pathlib import Path
from statistics import median
from typing import Final

from bench.report import Figure, figure
from everstep_checkpoint.shards import CHUNK_BYTES
from everstep_checkpoint.slots import Word
from everstep_trainer.agent.flushing import Flushing, Shelf
from everstep_trainer.agent.inputs import Input, ShardWritten
from everstep_trainer.agent.memory import Memory
from support.agent_core import Core

RATE_LIMIT: Final = 0.7
"""Of the plain write's rate, at least."""
SLOWDOWN_LIMIT: Final = 1.10
GIB: Final = 1 << 30
_SPIN: Final = 20_000


class Bench:
    """One shard in memory, and a flusher that writes it again and again as another step."""

    def __init__(self, folder: Path, total_bytes: int) -> None:
        self.folder = folder
        self.total_bytes = total_bytes
        self.memory = Memory(Core().state.me)
        self.pair = self.memory.workers[0].state
        self.pair.resize(total_bytes)
        block = os.urandom(CHUNK_BYTES)
        for at in range(0, self.pair.slot_bytes, CHUNK_BYTES):
            os.pwrite(self.pair.fd, block[: self.pair.slot_bytes - at], self.pair.place(0) + at)
        self.heard: asyncio.Queue[Input] = asyncio.Queue()
        me = Core().state.me
        self.flushing = Flushing(Shelf(str(folder), me), self.memory, self.heard.put_nowait)

    async def flush(self, step: int) -> tuple[float, float]:
        """Seconds until it was durable; turns of the loop a second meanwhile."""
        self.pair.finish(0, Word(0, "ready", 1, step, 0, 1, self.total_bytes))
        (snapshot,) = self.memory.snapshots()
        began = time.perf_counter()
        self.flushing.write(snapshot, 0.0, gentle=True)
        turns = 0
        while self.heard.empty():
            spin()
            turns += 1
            await asyncio.sleep(0)
        seconds = time.perf_counter() - began
        written = self.heard.get_nowait()
        assert isinstance(written, ShardWritten), written
        delete(written.path)
        return written.seconds, turns / seconds

    def plain(self) -> float:
        """Seconds to write the same bytes to a file and sync it."""
        path, buffer = self.folder / "plain", memoryview(bytearray(CHUNK_BYTES))
        began = time.perf_counter()
        with path.open("xb", buffering=0) as out:
            for at in range(0, self.total_bytes, CHUNK_BYTES):
                count = os.preadv(self.pair.fd, [buffer], self.pair.place(0) + at)
                out.write(buffer[: min(count, self.total_bytes - at)])
            os.fsync(out.fileno())
        seconds = time.perf_counter() - began
        path.unlink()
        return seconds


def delete(path: str) -> None:
    """The next run writes into the same room."""
    Path(path).unlink()


def spin() -> int:
    """Some work for the interpreter."""
    total = 0
    for number in range(_SPIN):
        total += number
    return total


async def pace(seconds: float) -> float:
    """Turns of the loop a second while nothing is written."""
    turns, began = 0, time.perf_counter()
    while time.perf_counter() < began + seconds:
        spin()
        turns += 1
        await asyncio.sleep(0)
    return turns / (time.perf_counter() - began)


async def measure(folder: Path, runs: int, total_bytes: int) -> list[Figure]:
    """Plain write, undisturbed loop and flush in turns."""
    bench = Bench(folder, total_bytes)
    await bench.flush(0)  # starts the process
    plain, flush, slowdown = [], [], []
    for step in range(1, runs + 1):
        plain.append(bench.plain())
        undisturbed = await pace(median(plain))
        seconds, meanwhile = await bench.flush(step)
        flush.append(seconds)
        slowdown.append(undisturbed / meanwhile)
    bench.flushing.stop()
    gib = total_bytes / GIB
    share = [a / b for a, b in zip(plain, flush, strict=True)]
    return [
        figure("plain synced write", "GiB/s", [gib / seconds for seconds in plain]),
        figure("flush with hash", "GiB/s", [gib / seconds for seconds in flush]),
        figure("flush beside plain write", "share", share, limit=RATE_LIMIT, least=True),
        figure("slowdown of a busy loop", "times", slowdown, limit=SLOWDOWN_LIMIT),
    ]
