"""What the agent's core wants done; each is carried out at once, and told of as an input."""

from dataclasses import dataclass

from everstep_contract.base import Event
from everstep_contract.identity import Endpoint
from everstep_contract.orders import Order
from everstep_contract.record import GenerationStart
from everstep_contract.telemetry import MemberReport

from everstep_trainer.agent.model import AgentState
from everstep_trainer.agent.snapshots import Occasion, Snapshot
from everstep_trainer.link import Assignment, ToWorker


@dataclass(frozen=True)
class StartWorker:
    """Fork a worker; ``assignment`` goes into its environment on the restart rung."""

    local_rank: int
    life: int
    assignment: Assignment | None


@dataclass(frozen=True)
class SendToWorker:
    """Tell one worker, if this life of it still lasts."""

    local_rank: int
    life: int
    message: ToWorker


@dataclass(frozen=True)
class KillWorker:
    """SIGKILL one worker, if this life of it still lasts."""

    local_rank: int
    life: int
    reason: str


@dataclass(frozen=True)
class TerminateWorker:
    """SIGTERM one worker that has no link to be told on."""

    local_rank: int
    life: int


@dataclass(frozen=True)
class StartStore:
    """Fork the store host."""


@dataclass(frozen=True)
class Publish:
    """Publish a fact, again and again while it matters."""

    event: Event


@dataclass(frozen=True)
class Report:
    """Publish telemetry, once."""

    report: MemberReport


@dataclass(frozen=True)
class Gossip:
    """Offer the newest order to these peers over the training network (R9).

    They answer with theirs; in a ``doubt`` that confirms ours.
    """

    order: Order
    to: tuple[Endpoint, ...]
    doubt: int | None = None


@dataclass(frozen=True)
class Reach:
    """Find out whether all of these can be reached; `PeersReached` when they can (R19)."""

    verdict_id: str
    endpoints: tuple[Endpoint, ...]


@dataclass(frozen=True)
class AskForOrder:
    """Read the job's newest order from the bus; `OrderConfirmed` when that is heard."""

    doubt: int


@dataclass(frozen=True)
class Vouch:
    """Say on the pages which generation the workers may step in; see `page`."""

    generation: int


@dataclass(frozen=True)
class LookAtSnapshots:
    """Say what is whole in the workers' memory: `SnapshotsSeen`."""

    occasion: Occasion


@dataclass(frozen=True)
class WriteShard:
    """Make a snapshot durable; `ShardWritten` or `ShardUnwritten` says what became of it.

    Until it is, and until ``keep_until`` (monotonic seconds) where there is no room for it,
    training does not write over it. Nothing is written before ``not_before``.
    ``gentle``: nobody waits for it, so it takes its time beside the training.
    """

    snapshot: Snapshot
    keep_until: float
    not_before: float = 0.0
    gentle: bool = False


@dataclass(frozen=True)
class NoteFlush:
    """Tell the workers how long a snapshot took to become durable: they plan by it."""

    seconds: float


@dataclass(frozen=True)
class GiveSnapshot:
    """Have a peer keep a copy of a snapshot; `SnapshotGiven` says what became of it.

    every: what this member asks of its workers, and would have others ask; if so, a copy stays here
    as well, for training will write over the snapshot.
    """

    snapshot: Snapshot
    to: Endpoint
    every: int = 0


@dataclass(frozen=True)
class AskForMarks:
    """Have workers mark, and hold for a moment, a snapshot each so many steps."""

    every: int


@dataclass(frozen=True)
class ForgetOvertaken:
    """Let go of copies for peers that no restore can want, by where generations began."""

    history: tuple[GenerationStart, ...]


@dataclass(frozen=True)
class StopFlusher:
    """Write nothing more; keep nothing for peers, and send them nothing (R24)."""


@dataclass(frozen=True)
class Warn:
    """Somebody may look tomorrow."""

    what: str
    detail: str


@dataclass(frozen=True)
class Exit:
    """End the agent with this status, once what still matters is published."""

    code: int
    reason: str


Effect = (
    StartWorker
    | SendToWorker
    | KillWorker
    | TerminateWorker
    | StartStore
    | Publish
    | Report
    | Gossip
    | Reach
    | AskForOrder
    | Vouch
    | LookAtSnapshots
    | WriteShard
    | GiveSnapshot
    | AskForMarks
    | ForgetOvertaken
    | NoteFlush
    | StopFlusher
    | Warn
    | Exit
)

Turn = tuple[AgentState, tuple[Effect, ...]]
"""What every rule answers: the next state, and what to do."""
