"""What it costs to load and verify a checkpoint, beside a bare read of the same cold file."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

import torch
from bench.report import Figure, figure
from everstep_checkpoint.shards import CHUNK_BYTES
from everstep_contract.manifest import Manifest
from everstep_trainer.library.loading import load_state
from safetensors.torch import load_file
from support.places import storage_of
from support.saves import save

GIB: Final = 1 << 30
RATIO_LIMIT: Final = 0.8
_ROW_BYTES: Final = 4096
_TENSORS: Final = 16


@dataclass(frozen=True)
class Run:
    """Seconds of each way to read the same file, every time out of no cache."""

    read: float
    read_into_new_memory: float
    load: float
    stock: float


def saved(root: Path, total_bytes: int) -> tuple[Path, Manifest]:
    """A checkpoint of that size in large tensors, with small ones between them."""
    rows = total_bytes // _TENSORS // _ROW_BYTES
    large = {f"{at}.weight": torch.rand(rows, _ROW_BYTES // 4) for at in range(_TENSORS)}
    small = {f"{at}.bias": torch.rand(1000) for at in range(_TENSORS)}
    return save(root, tensors=large | small)


def measure(folder: Path, manifest: Manifest, runs: int) -> list[Run]:
    """Read and load so many times, in random order: memory that one way frees helps the next."""
    path = folder / manifest.of_kind("state")[0].file
    ways: dict[str, Callable[[], object]] = {
        "read": lambda: _read(path, memoryview(bytearray(CHUNK_BYTES))),
        "read_into_new_memory": lambda: _read(
            path, torch.empty(path.stat().st_size, dtype=torch.uint8).numpy().data
        ),
        "load": lambda: load_state(storage_of(folder), manifest),
        "stock": lambda: {name: tensor.clone() for name, tensor in load_file(path).items()},
    }
    chance = Random(0)
    return [
        Run(**{name: _cold_seconds(path, ways[name]) for name in chance.sample([*ways], len(ways))})
        for _ in range(runs)
    ]


def figures_of(runs: list[Run], total_bytes: int) -> list[Figure]:
    """Rates, and each load's share of the read in its run."""

    def rate(name: str, seconds: list[float]) -> Figure:
        return figure(name, "GiB/s", [total_bytes / GIB / each for each in seconds])

    return [
        rate("cold read", [run.read for run in runs]),
        rate("cold read into new memory", [run.read_into_new_memory for run in runs]),
        rate("load with verify", [run.load for run in runs]),
        rate("stock safetensors, nothing verified", [run.stock for run in runs]),
        figure(
            "load with verify, of cold read",
            "share",
            [run.read / run.load for run in runs],
            limit=RATIO_LIMIT,
            least=True,
        ),
    ]


def _cold_seconds(path: Path, way: Callable[[], object]) -> float:
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    begun_at = time.perf_counter()
    way()
    return time.perf_counter() - begun_at


def _read(path: Path, memory: memoryview) -> None:
    """All of a file, into one buffer again and again or into all of a larger one."""
    with path.open("rb", buffering=0) as file:
        at = 0
        while count := file.readinto(memory[at : at + CHUNK_BYTES]):
            at = (at + count) % len(memory)
