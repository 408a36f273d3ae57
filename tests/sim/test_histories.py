"""Random histories keep every promise of DESIGN 10 and heal; a failure tells its seed."""

from concurrent.futures import ProcessPoolExecutor

import pytest
from sim.histories import check_history, run_history

MANY = 1000
"""Some minutes on two cores; `make sim SEEDS=n` asks for more."""


def check_histories(seeds: int) -> None:
    """Run them on all cores; the first that breaks a promise ends it."""
    with ProcessPoolExecutor() as cores:
        for _ in cores.map(check_history, range(seeds), chunksize=5):
            pass


@pytest.mark.timeout(0)  # as long as `make sim SEEDS=n` asks for
def test_histories_keep_every_promise_and_heal(seeds: int) -> None:
    check_histories(seeds)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_thousand_histories_keep_every_promise_and_heal() -> None:
    check_histories(MANY)


def test_a_history_is_the_same_every_time_it_is_told() -> None:
    assert list(run_history(5).ledger.lines) == list(run_history(5).ledger.lines)
