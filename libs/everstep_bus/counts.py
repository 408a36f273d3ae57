"""What a connection has been through, for metrics; counters only grow."""

from dataclasses import dataclass


@dataclass
class BusCounts:
    """Counted since the connection object was made."""

    connections: int = 0
    """Times a server was reached; all but the first are reconnections."""
    failures: int = 0
    """Times a server was not reached."""
    rebuilds: int = 0
    """Times a consumer or a watch was made anew on the server."""
    resyncs: int = 0
    """Times a watch found that it had silently missed something."""
    skipped: int = 0
    """Telemetry reports that were overwritten before they were read."""
    dropped: int = 0
    """Messages dropped because their reader was too slow, and reports not sent."""
    dead_letters: int = 0
    permission_violations: int = 0
