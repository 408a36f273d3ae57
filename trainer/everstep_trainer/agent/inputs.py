"""What the agent's core hears: of orders, workers, peers, snapshots and time."""

from dataclasses import dataclass

from everstep_contract.facts.checkpoint import SaveTrouble
from everstep_contract.identity import Endpoint
from everstep_contract.orders import Order

from everstep_trainer.agent.model import ExitStatus
from everstep_trainer.agent.snapshots import Occasion, Snapshot
from everstep_trainer.link import ToAgent
from everstep_trainer.page import PageView


@dataclass(frozen=True)
class OrderHeard:
    """An order came, by the bus or from a peer."""

    order: Order


@dataclass(frozen=True)
class WorkerStarted:
    """The zygote forked the worker."""

    local_rank: int
    life: int
    pid: int


@dataclass(frozen=True)
class WorkerSaid:
    """A worker's message on its link."""

    local_rank: int
    life: int
    message: ToAgent


@dataclass(frozen=True)
class WorkerDied:
    """The worker's pidfd became readable, or it could not be started."""

    local_rank: int
    life: int
    status: ExitStatus


@dataclass(frozen=True)
class StoreUp:
    """The store host listens."""

    endpoint: Endpoint


@dataclass(frozen=True)
class StoreDied:
    """The store host's process ended."""


@dataclass(frozen=True)
class PeersReached:
    """Everybody that `Reach` of this verdict named answered (R19)."""

    verdict_id: str


@dataclass(frozen=True)
class OrderConfirmed:
    """Somebody who was asked since this doubt arose knows no order newer than what was heard."""

    doubt: int


@dataclass(frozen=True)
class Tick:
    """Time passed; what the bus connection and the workers' pages say now."""

    bus_up: bool
    pages: tuple[PageView | None, ...]


@dataclass(frozen=True)
class Terminate:
    """A signal asked the agent to end."""

    detail: str


@dataclass(frozen=True)
class ZygoteLost:
    """Nothing can be started any more."""

    detail: str


@dataclass(frozen=True)
class SnapshotsSeen:
    """What is whole in the workers' memory: the answer to `LookAtSnapshots`."""

    occasion: Occasion
    found: tuple[Snapshot, ...]


@dataclass(frozen=True)
class SnapshotGiven:
    """A peer keeps this snapshot now; or, if not ``kept``, it does not."""

    snapshot: Snapshot
    kept: bool


@dataclass(frozen=True)
class PeriodHeard:
    """A peer that copies to us asks for copies each so many steps, of all members."""

    every: int


@dataclass(frozen=True)
class ShardWritten:
    """A snapshot lies on storage, synced, under this path."""

    snapshot: Snapshot
    path: str
    total_bytes: int
    xxh3_128: str
    seconds: float


@dataclass(frozen=True)
class ShardUnwritten:
    """A snapshot could not be written; nothing of it is left."""

    snapshot: Snapshot
    trouble: SaveTrouble
    detail: str


Input = (
    OrderHeard
    | WorkerStarted
    | WorkerSaid
    | WorkerDied
    | StoreUp
    | StoreDied
    | PeersReached
    | OrderConfirmed
    | SnapshotsSeen
    | SnapshotGiven
    | PeriodHeard
    | ShardWritten
    | ShardUnwritten
    | Tick
    | Terminate
    | ZygoteLost
)
