"""Random histories keep every promise of DESIGN 10 and heal; a failure tells its seed."""

import pytest
from sim.histories import run_history

MANY = 2000


@pytest.mark.timeout(0)  # as long as `make sim SEEDS=n` asks for
def test_histories_keep_every_promise_and_heal(seeds: int) -> None:
    for seed in range(seeds):
        run_history(seed)


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
def test_thousands_of_histories_keep_every_promise_and_heal() -> None:
    for seed in range(MANY):
        run_history(seed)


def test_a_history_is_the_same_every_time_it_is_told() -> None:
    assert list(run_history(5).ledger.lines) == list(run_history(5).ledger.lines)
