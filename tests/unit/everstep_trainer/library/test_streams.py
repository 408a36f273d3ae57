"""Random states that are derived for ranks of another world size."""

import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from everstep_trainer.library.rng import capture_rng, restore_rng
from everstep_trainer.library.streams import derived_rng, log_derived
from support.saves import save

RANKS = 64


@pytest.fixture(autouse=True)
def _own_random_state() -> Iterator[None]:
    before = capture_rng()
    yield
    restore_rng(before)


def drawn(states: dict[str, Any]) -> tuple[float, ...]:
    """A number of each library's stream."""
    restore_rng(states)
    return random.random(), float(torch.rand((), dtype=torch.float64)), float(np.random.rand())


def test_ec55_no_two_ranks_share_a_stream_of_any_library() -> None:
    numbers = [drawn(derived_rng("material", 7, rank)) for rank in range(RANKS)]
    flat = [number for of_rank in numbers for number in of_rank]
    assert len(set(flat)) == len(flat)


def test_ec55_the_same_resume_draws_the_same_numbers_again() -> None:
    assert drawn(derived_rng("material", 7, 1)) == drawn(derived_rng("material", 7, 1))


@pytest.mark.parametrize(("material", "step"), [("other", 7), ("material", 8)])
def test_another_state_or_step_draws_other_numbers(material: str, step: int) -> None:
    first = {drawn(derived_rng("material", 7, rank))[1] for rank in range(RANKS)}
    assert first.isdisjoint(drawn(derived_rng(material, step, rank))[1] for rank in range(RANKS))


def test_neighbouring_ranks_streams_are_not_correlated() -> None:
    def sample(rank: int) -> torch.Tensor:
        restore_rng(derived_rng("material", 7, rank))
        return torch.randn(100_000)

    both = torch.stack([sample(0), sample(1)])
    # |r| of independent samples is below 5 / sqrt(n) but once in a million; the seeds are fixed
    assert abs(float(torch.corrcoef(both)[0, 1])) < 5 / 100_000**0.5


def test_deriving_draws_from_no_stream_that_is_in_use() -> None:
    torch.manual_seed(1)
    expected = torch.rand(4)
    torch.manual_seed(1)
    derived_rng("material", 7, 0)
    assert torch.equal(torch.rand(4), expected)


def test_numpy_is_left_out_where_nobody_imported_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numpy")
    assert "numpy" not in derived_rng("material", 7, 0)


def test_the_log_says_what_a_changed_world_size_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_derived(save(tmp_path, "whole", 4)[1], 3)
    assert "step 7 was saved by 4 ranks and goes on with 3" in caplog.text
