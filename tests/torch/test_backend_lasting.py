"""Twenty generations leave nothing behind, long use hangs nothing, and scripts find all there."""

from typing import Any

import pytest
from support.rank_jobs import start_job
from support.ranks import RankHouse

GENERATIONS = 20
SETTLED_BY = 5
"""Generation by which caches and allocators have their size; growth is counted from here."""

BURIED = {"threads": 4, "descriptors": 8}
"""What a group with a work that gloo has forgotten may hold until its collective timeout."""

GROUPS = {"ddp": 1, "fsdp": 1, "hsdp": 3}
"""Process groups of one generation: HSDP adds one for each dimension of its mesh."""

GROWTH_BYTES = 24 << 20
"""What an allocator may waver by; one old generation that is kept costs more after fifteen."""


def usage(house: RankHouse, work: str, size: int) -> list[list[dict[str, Any]]]:
    """By rank, what it held on leaving each generation from ``SETTLED_BY`` on."""
    job = start_job(house, size, work)
    everybody = list(range(size))
    for _ in range(GENERATIONS + 1):
        generation = job.order(everybody)
        job.until("step", everybody, generation=generation, step=2)
    job.order(everybody)
    job.until("left", everybody, generation=GENERATIONS)
    return [job.ranks[me].said("left")[SETTLED_BY:] for me in everybody]


@pytest.mark.parametrize(
    ("work", "size"), [("ddp", 3), ("fsdp", 3), pytest.param("hsdp", 4, marks=pytest.mark.slow)]
)
def test_twenty_generations_in_one_process_leave_nothing_behind(
    house: RankHouse, work: str, size: int
) -> None:
    for held in usage(house, work, size):
        for what, each in BURIED.items():
            excused = each * GROUPS[work]
            assert min(now[what] - excused * now["buried"] for now in held[-3:]) <= held[0][what]
        assert held[-1]["rss_bytes"] - held[0]["rss_bytes"] < GROWTH_BYTES


@pytest.mark.parametrize(("size", "steps"), [(4, 20), pytest.param(8, 30, marks=pytest.mark.slow)])
def test_gathering_many_sharded_tensors_does_not_deadlock(
    house: RankHouse, size: int, steps: int
) -> None:
    job = start_job(house, size, "full_tensors")
    job.order(list(range(size)))
    job.until("step", list(range(size)), step=steps)


def test_scripts_and_libraries_find_what_they_call(house: RankHouse) -> None:
    job = start_job(house, 2, "tour")
    job.order([0, 1])
    for rank, toured in enumerate(job.until("toured", [0, 1])):
        assert toured["objects"] == [0, 1]
        assert toured["spread"] == ["from 1"]
        assert toured["exchanged"] == [0.0 + rank, 10.0 + rank]
        assert toured["compiled"] == [5.0, 5.0]
        assert toured["backend"] == "everstep"
