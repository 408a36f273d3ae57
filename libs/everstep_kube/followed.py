"""What is followed and how patiently, and what of an answer tells where one stands."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from everstep_kube.errors import AnswerError, error_of


class Name(NamedTuple):
    """Where an object lies; one of no namespace has the empty one."""

    namespace: str
    name: str


@dataclass(frozen=True)
class Followed:
    """Which objects: their collection's path, and a label selector for some of them."""

    path: str
    selector: str = ""

    @property
    def plural(self) -> str:
        """What they are called, e.g. ``pods``."""
        return self.path.rpartition("/")[2]

    def path_of(self, name: Name) -> str:
        """The path of one of them."""
        base, _, plural = self.path.rpartition("/")
        if name.namespace and "/namespaces/" not in base:
            base = f"{base}/namespaces/{name.namespace}"
        return f"{base}/{plural}/{name.name}"


@dataclass(frozen=True)
class WatchTiming:
    """Bounds in seconds. The server ends a watch before our patience with it ends.

    Attributes:
        server_seconds: How long one watch lasts by the server's clock.
        silence_seconds: How long one may last by ours.
        relist_seconds: How often everything is listed although nothing is wrong.
        stale_seconds: How old the last proof may be before what was told counts as unknown.
        longest_pause_seconds: The longest pause between two tries while nothing answers.
    """

    server_seconds: int = 10
    silence_seconds: float = 13.0
    relist_seconds: float = 300.0
    stale_seconds: float = 30.0
    longest_pause_seconds: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.server_seconds < self.silence_seconds < self.stale_seconds:
            raise ValueError(f"a quiet cluster would look like a dead one with {self}")


def version_of(found: Any) -> int:
    """The version of an object or a list as a number, 0 where there is none."""
    metadata = found.get("metadata") if isinstance(found, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return int(version) if isinstance(version, str) and version.isdecimal() else 0


def error_in(found: Any, path: str) -> AnswerError:
    """The error that an ERROR event holds."""
    status = found if isinstance(found, dict) else {}
    code = status.get("code")
    message = str(status.get("message") or found)[:200]
    return error_of(f"watch {path}", code if isinstance(code, int) else 0, message)
