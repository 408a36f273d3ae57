"""How long a server asks to wait, in either form, without believing anybody's clock."""

import pytest
from everstep_kube.answers import retry_after_seconds

NOON = "Wed, 02 Dec 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0.0),
        ({"Retry-After": "10"}, 10.0),
        ({"Retry-After": " 1 "}, 1.0),
        ({"Retry-After": "9" * 400}, 1e6),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "soon", "Date": NOON}, 0.0),
        ({"Retry-After": "Wed, 02 Dec 2026 12:00:07 GMT", "Date": NOON}, 7.0),
        ({"Retry-After": "Wed, 02 Dec 2026 11:00:00 GMT", "Date": NOON}, 0.0),
        ({"Retry-After": "Wed, 02 Dec 2026 12:00:07 GMT"}, 0.0),
        ({"Retry-After": "Wed, 02 Dec 2026 12:00:07 -0000", "Date": NOON}, 0.0),
    ],
)
def test_the_wish_to_wait_is_seconds_or_an_instant_of_the_servers_own_clock(
    headers: dict[str, str], seconds: float
) -> None:
    assert retry_after_seconds(headers) == seconds
