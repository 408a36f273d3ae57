"""What the watcher knows and has said: frozen values that `view` and `decide` turn over."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from everstep_bus.interface import Connected, Connection, Disconnected
from everstep_contract.clients import AgentClient, ServiceClient
from everstep_contract.facts.member import MemberLeft, SuspicionReason
from everstep_contract.identity import JobKey, Member
from everstep_contract.record import JobRecord
from everstep_contract.telemetry import MemberReport
from everstep_runtime.clock import Clock
from everstep_runtime.health import Readiness

Client = AgentClient | ServiceClient
"""Whose connections are followed: agents, and this watcher's own canaries."""
NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


class Link(NamedTuple):
    """A connection's key: client ids are unique on one server only (R10)."""

    server_id: str
    client_id: int


@dataclass(frozen=True)
class Policy:
    """How the watcher judges, and in whose name it speaks; durations in seconds.

    A reconnecting agent is not yet missing for ``reconnect_grace_seconds``. Blind is who loses a
    canary within ``blind_window_seconds`` of ``blind_members`` members, until canaries are back
    for the grace, or at most for ``blind_seconds``: then the servers' lists are believed again.
    A node counts as not Ready after ``not_ready_seconds`` of it, or at once with silence (EC-52),
    and as well after ``ready_again_seconds``. Facts about one object of the cluster that nobody
    acts on are ``cluster_fact_seconds`` apart.
    """

    witness: str
    node: str
    canaries: frozenset[ServiceClient] = frozenset()
    inventory_seconds: float = 2.0
    reassert_seconds: float = 3.0
    reconnect_grace_seconds: float = 4.0
    blind_members: int = 2
    blind_window_seconds: float = 2.0
    blind_seconds: float = 30.0
    forget_seconds: float = 60.0
    not_ready_seconds: float = 30.0
    ready_again_seconds: float = 10.0
    cluster_fact_seconds: float = 10.0


@dataclass(frozen=True)
class Silence:
    """Since when a client has no connection, and what ended its last one."""

    since: float
    reason: SuspicionReason
    detail: str


@dataclass(frozen=True)
class View:
    """Everything known. Only `view.fold` makes a new one.

    ``paged``: the connection lists were read since advisories were last missed. ``changes`` is
    not None while the connection lists are being paged through: what advisories
    say meanwhile is newer than a page. ``unseen``: servers with connections of ours that did not
    answer the last time, and since when. ``ended``: uids of jobs that are over. ``gone``: agents
    that said goodbye.
    """

    paged: bool = False
    links: Mapping[Link, Client] = field(default_factory=dict)
    changes: Mapping[Link, Client | None] | None = None
    unseen: Mapping[str, float] = field(default_factory=dict)
    silences: Mapping[Client, Silence] = field(default_factory=dict)
    seats: Mapping[JobKey, Mapping[AgentClient, Member]] = field(default_factory=dict)
    candidates: Mapping[AgentClient, Member] = field(default_factory=dict)
    ended: Mapping[JobKey, str] = field(default_factory=dict)
    gone: frozenset[AgentClient] = frozenset()

    def member(self, client: Client) -> Member | None:
        """The member to be watched behind a client, if it is one."""
        if not isinstance(client, AgentClient):
            return None
        return self.seats.get(client.job, NOTHING).get(client) or self.candidates.get(client)


@dataclass(frozen=True)
class Cause:
    """Why a member is to be suspected, and since when."""

    member: Member
    reason: SuspicionReason
    since: float
    detail: str


@dataclass(frozen=True)
class Standing:
    """A suspicion that was told and whose cause stands."""

    cause: Cause
    observation: int
    reassertion: int
    said_at: float


@dataclass(frozen=True)
class Spoken:
    """Suspicions told in one voice; ``observations`` counts them by whom they were about."""

    standing: Mapping[AgentClient, Standing] = field(default_factory=dict)
    observations: Mapping[AgentClient, int] = field(default_factory=dict)

    def only(self, watched: Callable[[AgentClient], bool]) -> "Spoken":
        """Without what was told of those who are watched no more."""
        return Spoken(
            {client: standing for client, standing in self.standing.items() if watched(client)},
            {client: count for client, count in self.observations.items() if watched(client)},
        )


@dataclass(frozen=True)
class Blindness:
    """A time when silence proves nothing, since canaries fell silent as well (R14)."""

    episode: int
    since: float
    said_at: float
    lit_since: float | None = None


@dataclass(frozen=True)
class Said:
    """What the watcher has told of connections; ``sighted_at``: the last end of blindness."""

    spoken: Spoken = field(default_factory=Spoken)
    blindness: Blindness | None = None
    episodes: int = 0
    sighted_at: float = float("-inf")


@dataclass
class Silent:
    """Members that the bus does not hear: what one half of the watcher knows for the other."""

    clients: frozenset[AgentClient] = frozenset()


@dataclass(frozen=True)
class Duty:
    """What both halves of one watcher share."""

    policy: Policy
    clock: Clock
    readiness: Readiness
    silent: Silent = field(default_factory=Silent)


@dataclass(frozen=True)
class OutOfSight:
    """The connection to the servers' events is down: advisories are being missed."""


@dataclass(frozen=True)
class PagingBegun:
    """The connection lists are about to be read."""


@dataclass(frozen=True)
class Paged:
    """All connections that the servers listed."""

    connections: tuple[Connection, ...]


@dataclass(frozen=True)
class JobForgotten:
    """The job's record is gone."""

    job: JobKey


Observation = (
    Connected
    | Disconnected
    | OutOfSight
    | PagingBegun
    | Paged
    | JobRecord
    | JobForgotten
    | MemberReport
    | MemberLeft
)
