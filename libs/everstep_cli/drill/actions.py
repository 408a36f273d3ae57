"""What a drill does, step by step, as data."""

from dataclasses import dataclass
from typing import Literal

Hurting = Literal[
    "power_off",
    "crash",
    "freeze",
    "kill_worker",
    "cut_bus",
    "stop_kubelet",
    "preempt",
    "delete_pod",
    "drain",
]
Target = Literal["any", "store_host"]
ServiceName = Literal["node_watcher", "adjudicator", "rescaler", "checkpoint_indexer"]
ClusterVerb = Literal[
    "annotate", "taint", "cordon", "delete_pod", "force_delete_pod", "release", "evict"
]
"""What Everstep may do to the cluster: by itself, and on an operator's word."""


@dataclass(frozen=True)
class Hurt:
    """Do something to ``count`` members, chosen at random, at a random moment of so many steps.

    ``cordoned``: their nodes are cordoned before where they are lost, as by an administrator, so
    that no replacement starts there before it is allowed to.
    """

    how: Hurting
    target: Target = "any"
    count: int = 1
    within_steps: int = 1
    cordoned: bool = True


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
    """Uncordon the node that was lost first, so that a replacement can start there."""


@dataclass(frozen=True)
class Undo:
    """Undo what was done to nodes and still stands; a node without power gets it back."""


@dataclass(frozen=True)
class AwaitNode:
    """Wait until the node that was hurt first has this condition Ready."""

    ready: Literal["True", "Unknown"]


@dataclass(frozen=True)
class AwaitWrites:
    """Wait until Everstep has made these writes to the cluster since the fault."""

    verbs: tuple[ClusterVerb, ...]


@dataclass(frozen=True)
class LetTrain:
    """Let training go on for so many steps, whatever the cluster says meanwhile."""

    steps: int


@dataclass(frozen=True)
class StopApi:
    """Have the cluster's API server go away: connections are refused."""


@dataclass(frozen=True)
class StartApi:
    """Have it come back, without the history that watches resume from."""


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


Waiting = (
    AwaitSteps | AwaitCheckpoints | AwaitHold | AwaitDismissal | AwaitNode | AwaitWrites | LetTrain
)
Disturbing = StopBus | StartBus | StopApi | StartApi | TripService
"""What is done to services and not to members."""
Action = Hurt | HurtWhileForming | Waiting | BringBack | Undo | Disturbing | EndJob | FillDisk
