"""Out of memory again: how long it takes, beside a bare copy, and what the slots take."""

import os
import time
from collections.abc import Callable

import torch
from bench.checkpoint_stall import Ours
from everstep_checkpoint.slots import SlotPair, Word
from everstep_trainer.library.agreement import Version
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.tree import unpack

Pair = tuple[float, float]
"""Seconds of the bare way, and of ours."""
BLOCK_BYTES = 512
"""What `os.stat` counts memory in."""


def newest(ours: Ours) -> tuple[SlotPair, int, Word]:
    """The slot that holds the newest snapshot."""
    pair = ours.slots[0]
    slot, word = pair.ready()[0]
    return pair, slot, word


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
    return os.fstat(pair.fd).st_blocks * BLOCK_BYTES / word.total_bytes


def seconds_of(call: Callable[[], object]) -> float:
    """By the wall clock."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
