"""The table of faults, as data: what is done, and what is expected of it."""

from __future__ import annotations  # the contract's words are for types alone, and slow to load

from typing import TYPE_CHECKING, Final

from everstep_cli.drill.actions import (
    AwaitCheckpoints,
    AwaitDismissal,
    AwaitHold,
    AwaitSteps,
    BringBack,
    EndJob,
    FillDisk,
    Hurt,
    HurtWhileForming,
    ServiceName,
    StartBus,
    StopBus,
    TripService,
)
from everstep_cli.drill.cluster_faults import CLUSTER_FAULTS
from everstep_cli.drill.fault import (
    CHECKPOINT_EVERY,
    COLD_START_SECONDS,
    MEMBERS,
    SNAPSHOT_EVERY,
    Fault,
    FaultName,
    stepping_without,
)

if TYPE_CHECKING:
    from everstep_contract.verdicts import VerdictKind

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
        summary=f"{service} dies between deciding and telling of a crash",
        actions=(TripService(service), Hurt("crash"), stepping_without(1)),
        verdicts=_SHRINK,
        members_lost=1,
    )


FAULTS: Final[dict[FaultName, Fault]] = {
    fault.name: fault
    for fault in (
        Fault(
            name=FaultName.POWER_OFF,
            summary="a node loses its power: its link dies before its processes",
            actions=(Hurt("power_off"), stepping_without(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="node_freeze",
        ),
        Fault(
            name=FaultName.CRASH,
            summary="agent and workers of a member are killed",
            actions=(Hurt("crash"), stepping_without(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="node_kill",
        ),
        Fault(
            name=FaultName.FREEZE,
            summary="agent and workers of a member freeze, and thaw at the end",
            actions=(Hurt("freeze"), stepping_without(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="node_freeze",
        ),
        Fault(
            name=FaultName.WORKER,
            summary="one worker is killed, its agent lives",
            actions=(Hurt("kill_worker"), stepping_without(0)),
            verdicts=(("restart_workers",),),
            members_lost=0,
            torchrun="worker_kill",
        ),
        Fault(
            name=FaultName.STORE_HOST,
            summary="the node that hosts the rendezvous store crashes",
            actions=(Hurt("crash", target="store_host"), stepping_without(1)),
            verdicts=_SHRINK,
            members_lost=1,
            torchrun="store_kill",
        ),
        Fault(
            name=FaultName.TWO_AT_ONCE,
            summary="two nodes crash in one step",
            actions=(Hurt("crash", count=2), stepping_without(2)),
            verdicts=_ONE_OR_TWO,
            members_lost=2,
        ),
        Fault(
            name=FaultName.WHILE_FORMING,
            summary="a second node crashes while the others re-form",
            actions=(Hurt("crash"), HurtWhileForming("crash"), stepping_without(2)),
            verdicts=_ONE_OR_TWO,
            members_lost=2,
        ),
        Fault(
            name=FaultName.THIRD_LOSS,
            summary="three nodes crash one after the other, then one comes back",
            actions=(
                Hurt("crash"),
                stepping_without(1),
                Hurt("crash"),
                stepping_without(2),
                Hurt("crash"),
                AwaitHold(),
                BringBack(),
                stepping_without(2),
            ),
            verdicts=(("shrink", "shrink", "await_replacement", "grow"),),
            members_lost=2,
        ),
        Fault(
            name=FaultName.RETURN,
            summary="a node crashes, and its replacement comes",
            actions=(Hurt("crash"), stepping_without(1), BringBack(), stepping_without(0)),
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
            actions=(StopBus(), Hurt("crash"), StartBus(), stepping_without(1)),
            verdicts=_SHRINK,
            members_lost=1,
        ),
        _tripped("adjudicator"),
        _tripped("rescaler"),
        _tripped("node_watcher"),
        Fault(
            name=FaultName.WORKER_OOM,
            summary="a worker of each member is killed, as if memory ran out",
            actions=(
                Hurt("kill_worker", count=MEMBERS, within_steps=SNAPSHOT_EVERY),
                stepping_without(0),
            ),
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
        *CLUSTER_FAULTS,
    )
}
