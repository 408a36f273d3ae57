"""What one row of the table of faults says."""

from __future__ import annotations  # the contract's words are for types alone, and slow to load

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

from everstep_cli.drill.actions import (
    Action,
    AwaitSteps,
    ClusterVerb,
    FillDisk,
    ServiceName,
    TripService,
)

if TYPE_CHECKING:
    from everstep_contract.facts.member import StateSource
    from everstep_contract.record import Outcome
    from everstep_contract.verdicts import VerdictKind

LISTED_WAYS: Final = 3
TorchrunFault = Literal["node_freeze", "node_kill", "store_kill", "worker_kill"]
Ways = tuple[tuple["VerdictKind", ...], ...]
"""Sequences of verdicts that are as good as each other."""
MEMBERS: Final = 8
MIN_MEMBER: Final = 6
TORCHRUN_HEAL_SECONDS: Final = 60.0
"""How long plain torchrun may take to heal; the same bound as any change of membership has."""
SNAPSHOT_EVERY: Final = 5
CHECKPOINT_EVERY: Final = 20
"""Steps between what the drill's own model keeps in memory, and on storage."""
COLD_START_SECONDS: Final = 180.0
"""How long eight members may take to begin anew: they import torch on two cores."""


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
    NODE_NOTREADY = "node-notready"
    PREEMPTED = "preempted"
    CORDONED_BY_ADMIN = "cordoned-by-admin"
    API_SERVER_DOWN = "api-server-down"
    POD_DELETED = "pod-deleted"
    DRAINED = "drained"


@dataclass(frozen=True)
class OnCluster:
    """What Everstep is to do to the cluster. Whatever is not named here must not be written.

    writes: how often each write is made since the fault; beside them each generation is noted on
        the Job, once.
    spares: nodes beside the members' own, on which replacements start.
    node_left: how the node that was hurt first is at the end: as it was, cordoned by the
        administrator alone, or quarantined by us.
    spares_budget: no failure is counted against the job.
    """

    writes: Mapping[ClusterVerb, int] = field(default_factory=dict)
    spares: int = 0
    node_left: Literal["as_it_was", "cordoned_by_admin", "quarantined"] = "as_it_was"
    spares_budget: bool = False


@dataclass(frozen=True)
class Fault:
    """One row of the table.

    verdicts: every sequence of them that is as good as expected.
    last_outcome: of the incident; None if there must be none.
    most_steps_lost: completed steps that may have to be done again.
    sources: where the state may come from; empty: it does not matter.
    cluster: what may be done to the cluster; None: it is not looked at.
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
    cluster: OnCluster | None = None

    @property
    def expected_verdict(self) -> str:
        """The expected verdicts in words; of many ways only the shortest."""
        if len(self.verdicts) > LISTED_WAYS:
            return f"{', '.join(self.verdicts[0])}, perhaps in more steps"
        return " or ".join(", ".join(sequence) or "none" for sequence in self.verdicts)


def stepping_without(lost: int) -> AwaitSteps:
    """Wait until all members but so many step."""
    return AwaitSteps(members=MEMBERS - lost)


def tripped_service(fault: Fault) -> ServiceName | None:
    """The service that the fault lets die in mid-sentence, if it does that."""
    found = (action.service for action in fault.actions if isinstance(action, TripService))
    return next(found, None)


def needs_small_disk(fault: Fault) -> bool:
    """Whether checkpoints must lie on a disk that can be filled."""
    return any(isinstance(action, FillDisk) for action in fault.actions)
