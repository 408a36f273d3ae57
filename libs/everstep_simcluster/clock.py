"""The two spellings of time in Kubernetes objects."""

from datetime import UTC, datetime


def timestamp(moment: datetime | None = None) -> str:
    """``moment`` (now if None) to the second, as metadata and conditions have it."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_timestamp(moment: datetime | None = None) -> str:
    """``moment`` (now if None) with six digits of a second, as leases have it."""
    return (moment or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_timestamp(text: str) -> datetime:
    """The moment that a timestamp of either spelling names."""
    return datetime.fromisoformat(text)
