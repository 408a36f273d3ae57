"""Subject filters."""

import pytest
from everstep_bus.memory.filters import admits


@pytest.mark.parametrize(
    ("subject_filter", "subject", "admitted"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*.c", "a.b.c", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
def test_a_filter_admits_what_nats_server_would(
    subject_filter: str, subject: str, admitted: bool
) -> None:
    assert admits(subject_filter, subject) is admitted
