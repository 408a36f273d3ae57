"""Every bound of the bus in one place; seconds unless the name says otherwise."""

from typing import Final

WATCH_CHECK_SECONDS: Final = 2.0
"""A watch compares itself with its bucket this often, and is made anew at the second difference."""
ORDER_RESYNC_SECONDS: Final = 1.0
"""An agent reads its job's last order at least this often (R8)."""
ACK_WAIT_FRACTION: Final = 3.0
"""In-progress signals are sent every ack_wait divided by this, so that two may be lost."""
PUBLISH_SECONDS: Final = 2.0
"""How long a write waits for the stream's acknowledgement."""
FIRST_RETRY_SECONDS: Final = 0.1
RETRY_FACTOR: Final = 4.0
LONGEST_RETRY_SECONDS: Final = 10.0
BURIALS: Final = 6
"""Attempts to publish what a reader cannot decode to DEAD; then the log is all that tells of it."""
CONCURRENT_ANSWERS: Final = 8
"""Queries one `answer` works on at once; more wait in its queue."""
WAITING_QUERIES: Final = 64
"""Queries that wait to be answered; more are not heard, and their askers time out."""
WAITING_ADVISORIES: Final = 65_536
"""Advisories a slow reader may lag behind; older ones are dropped, the inventory finds them."""


def retry_delay_seconds(attempt: int) -> float:
    """How long a message waits after its ``attempt``-th delivery (from 1) failed: 0.1, 0.4, ..."""
    return float(min(FIRST_RETRY_SECONDS * RETRY_FACTOR ** (attempt - 1), LONGEST_RETRY_SECONDS))
