"""The table of faults, as data: what is done, and what is expected of it."""

from __future__ import annotations  # the contract's words are for types alone, and slow to load

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from everstep_contract.facts.member import StateSource
    from everstep_contract.record import Outcome
    from everstep_contract.verdicts import VerdictKind

LISTED_WAYS: Final = 3
Hurting = Literal["power_off", "crash", "freeze", "kill_worker", "cut_bus"]
Target = Literal["any", "store_host"]
ServiceName = Literal["node_watcher", "adjudicator", "rescaler", "checkpoint_indexer"]
TorchrunFault = Literal["node_freeze", "node_kill", "store_kill", "worker_kill"]


class FaultName(StrEnum):
    """What `--fault` takes."""

    POWER_OFF = "power-off"
    CRASH = "crash"
    FREEZE = "freeze"
    WORKER = "worker"
    STORE_HOST = "store-host"
    TWO_AT_ONCE = "two-at-once"
    WHILE_FORMING = "while-forming"
    THIRD_LOSS = "third-loss"
    RETURN = "return"
    BUS_LINK = "bus-link"
    BUS = "bus"
    ADJUDICATOR = "adjudicator"
    RESCALER = "rescaler"
    NODE_WATCHER = "node-watcher"
    WORKER_OOM = "worker-oom"
    WHOLE_JOB = "whole-job"
    BAD_CHECKPOINT = "bad-checkpoint"
    DISK_FULL = "disk-full"


@dataclass(frozen=True)
class Hurt:
    """Do something to ``count`` members, chosen at random, at a random moment of so many steps."""

    how: Hurting
    target: Target = "any"
    count: int = 1
    within_steps: int = 1


@dataclass(frozen=True)
class HurtWhileForming:
    """Hurt one more member as soon as an order to re-form without the first is out."""

    how: Hurting


@dataclass(frozen=True)
class AwaitSteps:
    """Wait until exactly ``members`` members step in the job's newest generation."""

    members: int
    within_seconds: float = 60.0


@dataclass(frozen=True)
class AwaitCheckpoints:
    """Wait until so many more checkpoints are committed."""

    count: int


@dataclass(frozen=True)
class AwaitHold:
    """Wait until the job holds, and then a while in which no step may be taken."""


@dataclass(frozen=True)
class AwaitDismissal:
    """Wait until an incident is dismissed."""


@dataclass(frozen=True)
class BringBack:
    """Give the node that was lost first its power back, so that a replacement can start there."""


@dataclass(frozen=True)
class StopBus:
    """Kill nats-server, and let training go on without it for a while."""


@dataclass(frozen=True)
class StartBus:
    """Start nats-server again on the same port and store."""


@dataclass(frozen=True)
class TripService:
    """Let a service die between its next decision and its publication; start it again then."""

    service: ServiceName


@dataclass(frozen=True)
class EndJob:
    """End every process of every member at one instant; their pods are made anew.

    ``damage``: one byte of the newest checkpoint changes while nobody lives.
    """

    damage: bool = False


@dataclass(frozen=True)
class FillDisk:
    """Leave no room where checkpoints lie until a save failed for it, and give it back then."""


Waiting = AwaitSteps | AwaitCheckpoints | AwaitHold | AwaitDismissal
Action = (
    Hurt
    | HurtWhileForming
    | Waiting
    | BringBack
    | StopBus
    | StartBus
    | TripService
    | EndJob
    | FillDisk
)


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    verdicts: every sequence of them that is as good as expected.
    last_outcome: of the incident; None if there must be none.
    most_steps_lost: completed steps that may have to be done again.
    sources: where the state may come from; empty: it does not matter.
    """

    name: FaultName
    summary: str
    actions: tuple[Action, ...]
    verdicts: tuple[tuple[VerdictKind, ...], ...]
    members_lost: int
    last_outcome: Outcome | None = "resumed"
    most_steps_lost: int = 0
    sources: tuple[StateSource, ...] = ()
    torchrun: TorchrunFault | None = None

    @property
    def expected_verdict(self) -> str:
        """The expected verdicts in words; of many ways only the shortest."""
        if len(self.verdicts) > LISTED_WAYS:
            return f"{', '.join(self.verdicts[0])}, perhaps in more steps"
        return " or ".join(", ".join(sequence) or "none" for sequence in self.verdicts)


def _to(lost: int) -> AwaitSteps:
    return AwaitSteps(members=MEMBERS - lost)


MEMBERS: Final = 8
MIN_MEMBER: Final = 6
TORCHRUN_HEAL_SECONDS: Final = 60.0
"""How long plain torchrun may take to heal; the same bound as any change of membership has."""
SNAPSHOT_EVERY: Final = 5
CHECKPOINT_EVERY: Final = 20
"""Steps between what the drill's own model keeps in memory, and on storage."""
COLD_START_SECONDS: Final = 180.0
"""How long eight members may take to begin anew: they import torch on two cores."""
_SHRINK: Final[tuple[tuple[VerdictKind, ...], ...]] = (("shrink",),)
_SHRUNK: Final[tuple[VerdictKind, ...]] = ("shrink", "shrink")
_HELD: Final[tuple[VerdictKind, ...]] = ("await_replacement",) * 3
_WHOLE: Final[tuple[tuple[VerdictKind, ...], ...]] = tuple(
    (*_SHRUNK[:shrinks], *_HELD[:holds], "form") for shrinks in range(3) for holds in (1, 2, 3)
)
"""The first deaths to be proven may be ruled on before the others are."""
_ANEW: Final = AwaitSteps(MEMBERS, COLD_START_SECONDS)
_ONE_OR_TWO: Final[tuple[tuple[VerdictKind, ...], ...]] = (("shrink",), ("shrink", "shrink"))


def _tripped(service: ServiceName) -> Fault:
    return Fault(
        name=FaultName(service.replace("_", "-")),
        summary=f"{service} dies between deciding and telling; a node crashes",
        actions=(TripService(service), Hurt("crash"), _to(1)),
        verdicts=_SHRINK,
        members_lost=1,
    )


FAULTS: Final[dict[FaultName, Fault]] = {
    fault.name: fault
    for fault in (
        Fault(
            name=FaultName.POWER_OFF,
            summary="a node loses its power: its link dies before its processes",
            actions=(Hurt("power_off"), _to(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="node_freeze",
        ),
        Fault(
            name=FaultName.CRASH,
            summary="agent and workers of a member are killed",
            actions=(Hurt("crash"), _to(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="node_kill",
        ),
        Fault(
            name=FaultName.FREEZE,
            summary="agent and workers of a member freeze, and thaw at the end",
            actions=(Hurt("freeze"), _to(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="node_freeze",
        ),
        Fault(
            name=FaultName.WORKER,
            summary="one worker is killed, its agent lives",
            actions=(Hurt("kill_worker"), _to(0)),
            verdicts=(("restart_workers",),),
            members_lost=0,
            torchrun="worker_kill",
        ),
        Fault(
            name=FaultName.STORE_HOST,
            summary="the node that hosts the rendezvous store crashes",
            actions=(Hurt("crash", target="store_host"), _to(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="store_kill",
        ),
        Fault(
            name=FaultName.TWO_AT_ONCE,
            summary="two nodes crash in one step",
            actions=(Hurt("crash", count=2), _to(2)),
            verdicts=_ONE_OR_TWO,
            members_lost=2,
        ),
        Fault(
            name=FaultName.WHILE_FORMING,
            summary="a second node crashes while the others re-form",
            actions=(Hurt("crash"), HurtWhileForming("crash"), _to(2)),
            verdicts=_ONE_OR_TWO,
            members_lost=2,
        ),
        Fault(
            name=FaultName.THIRD_LOSS,
            summary="three nodes crash one after the other, then one comes back",
            actions=(
                Hurt("crash"),
                _to(1),
                Hurt("crash"),
                _to(2),
                Hurt("crash"),
                AwaitHold(),
                BringBack(),
                _to(2),
            ),
            verdicts=(("shrink", "shrink", "await_replacement", "grow"),),
            members_lost=2,
        ),
        Fault(
            name=FaultName.RETURN,
            summary="a node crashes, and its replacement comes",
            actions=(Hurt("crash"), _to(1), BringBack(), _to(0)),
            verdicts=(("shrink", "grow"),),
            members_lost=0,
        ),
        Fault(
            name=FaultName.BUS_LINK,
            summary="one member loses only its way to the bus",
            actions=(Hurt("cut_bus"), AwaitDismissal()),
            verdicts=(("tolerate",), ()),
            members_lost=0,
            last_outcome="dismissed",
        ),
        Fault(
            name=FaultName.BUS,
            summary="nats-server dies, a node crashes, nats-server comes back",
            actions=(StopBus(), Hurt("crash"), StartBus(), _to(1)),
            verdicts=_SHRINK,
            members_lost=1,
        ),
        _tripped("adjudicator"),
        _tripped("rescaler"),
        _tripped("node_watcher"),
        Fault(
            name=FaultName.WORKER_OOM,
            summary="a worker of each member is killed, as if memory ran out",
            actions=(Hurt("kill_worker", count=MEMBERS, within_steps=SNAPSHOT_EVERY), _to(0)),
            verdicts=(("restart_workers",), ("restart_workers", "restart_workers")),
            members_lost=0,
            most_steps_lost=SNAPSHOT_EVERY,
            sources=("memory", "living"),
        ),
        Fault(
            name=FaultName.WHOLE_JOB,
            summary="all members die at one instant, and are started anew",
            actions=(AwaitCheckpoints(1), EndJob(), _ANEW),
            verdicts=_WHOLE,
            members_lost=0,
            last_outcome="holding",
            most_steps_lost=CHECKPOINT_EVERY,
            sources=("disk",),
        ),
        Fault(
            name=FaultName.BAD_CHECKPOINT,
            summary="all members die, and a byte of the newest checkpoint flips",
            actions=(AwaitCheckpoints(2), EndJob(damage=True), _ANEW),
            verdicts=_WHOLE,
            members_lost=0,
            last_outcome="holding",
            most_steps_lost=2 * CHECKPOINT_EVERY,
            sources=("disk",),
        ),
        Fault(
            name=FaultName.DISK_FULL,
            summary="no room for checkpoints for a while",
            actions=(AwaitCheckpoints(1), FillDisk(), AwaitCheckpoints(1)),
            verdicts=((),),
            members_lost=0,
            last_outcome=None,
        ),
    )
}


def tripped_service(fault: Fault) -> ServiceName | None:
    """The service that the fault lets die in mid-sentence, if it does that."""
    found = (action.service for action in fault.actions if isinstance(action, TripService))
    return next(found, None)


def needs_small_disk(fault: Fault) -> bool:
    """Whether checkpoints must lie on a disk that can be filled."""
    return any(isinstance(action, FillDisk) for action in fault.actions)
