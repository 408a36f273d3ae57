"""How long a client waits before it tries again."""

from everstep_bus.nats.link import LONGEST_BACKOFF_SECONDS, backoff_seconds
from hypothesis import given
from hypothesis import strategies as st


@given(st.integers(0, 10**9))
def test_the_wait_between_attempts_has_a_bound_however_long_the_outage(attempt: int) -> None:
    assert 0 < backoff_seconds(attempt) <= 1.5 * LONGEST_BACKOFF_SECONDS


def test_waits_are_jittered_so_that_clients_do_not_come_back_in_step() -> None:
    assert len({backoff_seconds(8) for _ in range(20)}) > 1
