"""Pages for new memory, found ahead of its use."""

import mmap
from pathlib import Path

import torch
from everstep_trainer.library.fresh_memory import populated
from support.polling import eventually

SIZE = 64 << 20


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


async def test_new_memory_gets_its_pages_though_nobody_writes_to_it() -> None:
    before = resident_bytes()
    fresh = torch.empty(SIZE, dtype=torch.uint8)
    with populated([fresh]):
        await eventually(lambda: resident_bytes() - before > 0.9 * fresh.nbytes)


async def test_what_is_in_memory_already_stays() -> None:
    half, before = torch.ones(SIZE, dtype=torch.uint8), resident_bytes()
    fresh = torch.empty(SIZE, dtype=torch.uint8)
    with populated([half, fresh]):
        await eventually(lambda: resident_bytes() - before > 0.9 * fresh.nbytes)
    assert bool((half == 1).all())


def test_memory_smaller_than_a_page_is_let_alone() -> None:
    with populated([torch.ones(()), torch.empty(0)]):
        pass
