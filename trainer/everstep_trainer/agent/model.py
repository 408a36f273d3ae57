"""What the agent's core knows; what it hears is in `inputs`, what it wants done in `effects`."""

from dataclasses import dataclass, field, replace
from typing import Literal

from everstep_contract.facts.member import StateSource
from everstep_contract.facts.worker import ExitClass
from everstep_contract.identity import Endpoint, GangSpec, JobKey, Member
from everstep_contract.orders import Order
from everstep_runtime.clock import Moment

from everstep_trainer.agent.snapshots import Giving, Saves
from everstep_trainer.page import PageView

Rung = Literal["in_process", "restart"]
"""How workers follow a new generation: their library re-forms, or they are started anew."""
WorkerStage = Literal[
    "absent", "starting", "parked", "left", "formed", "stepping", "broken", "finished", "done"
]
"""absent: no process · starting: has not parked yet · parked: warm, in no group · left: out of
the old group, forming · formed: group made, state agreed · stepping: first step completed ·
broken: its group failed · finished: its loop has ended · done: its process ended well."""
EndReason = Literal["terminated", "stopped", "finished", "failed", "fenced"]


@dataclass(frozen=True)
class Limits:
    """The agent's own patience, in seconds; an order's durations bind where they are shorter.

    leave_seconds: from an order until a worker must be out of its old group, else it is killed.
    Leaving in the process takes 0.1 s measured, where no long step comes before it.
    phase_seconds: the same for a worker in a phase of the script's own, or in its first step.
    settle_seconds: how long a worker that cannot tell must live to count as formed.
    join_seconds: how long a script may run without joining before that is worth a warning.
    doubt_seconds: a pause between two ticks, four a second, after which the agent may have been
    replaced meanwhile, and vouches for nothing before it has asked.
    save_seconds: how long the end of a job waits for its last checkpoint.
    room_kept_seconds: how long a snapshot that found a full disk keeps its place in memory; then
    training may write over it. room_pause_seconds: between two tries, doubling to the limit.
    give_seconds: between two looks for what the partner should keep.
    heal_seconds: how long a save waits, held in memory, for members that re-form at that moment. On
    two cores they took 0.3 to 0.6 s longer beside eight flushers.
    """

    leave_seconds: float = 5.0
    phase_seconds: float = 600.0
    grace_seconds: float = 10.0
    settle_seconds: float = 1.0
    join_seconds: float = 60.0
    max_restarts: int = 3
    restart_backoff_seconds: float = 0.2
    restart_backoff_limit_seconds: float = 10.0
    report_seconds: float = 0.5
    advance_seconds: float = 2.0
    gossip_seconds: float = 1.0
    doubt_seconds: float = 0.6
    vouch_seconds: float = 0.2
    save_seconds: float = 600.0
    room_kept_seconds: float = 16.0
    room_pause_seconds: float = 1.0
    room_pause_limit_seconds: float = 60.0
    give_seconds: float = 0.25
    heal_seconds: float = 2.0


@dataclass(frozen=True)
class Replication:
    """How snapshots are copied to a partner's memory.

    within_node: to a partner on the same node too, if need be: what tests run on has one node.
    bytes_per_second: sent by this member at most, a hundredth of a fast network's. limit_bytes: of
    memory for others' copies; what is left of the machine's is only taken by half.
    """

    within_node: bool = False
    bytes_per_second: int = 128 << 20
    limit_bytes: int = 64 << 30


@dataclass(frozen=True)
class Me:
    """What never changes in the life of an agent.

    Attributes:
        has_storage: Checkpoints have a place.
        saved_generation: The highest that its job has checkpoints of.
    """

    job: JobKey
    member: Member
    gang: GangSpec
    peer: Endpoint
    boot_id: str
    rung: Rung = "in_process"
    scheduler_world_size: int | None = None
    has_storage: bool = False
    saved_generation: int = 0
    limits: Limits = field(default_factory=Limits)
    replication: Replication = Replication()

    @property
    def incarnation(self) -> str:
        """This life of this agent."""
        return self.member.incarnation


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended; neither code nor signal: nobody could say."""

    code: int | None = None
    signal: int | None = None
    classified: ExitClass = "unknown"


@dataclass(frozen=True)
class Worker:
    """One worker. ``life`` counts its processes, so that a dead one's last words are known.

    generation: the newest it has acknowledged. assigned: the newest it was told to form.
    joined: its script has called the library; True also once a warning said that it has not.
    told: key of what it was told last. barred: a verdict whose group its last life died in, which
    a new life cannot join. stage_at, start_at: monotonic seconds; start_at: not before then.
    """

    local_rank: int
    life: int = 0
    pid: int = 0
    stage: WorkerStage = "absent"
    generation: int = 0
    version: int = -1
    step: int = 0
    step_seconds: float = 0.0
    joined: bool = False
    told: str = ""
    assigned: int = 0
    barred: str = ""
    stage_at: float = 0.0
    start_at: float = 0.0
    early_deaths: int = 0
    kill_reason: str = ""
    page: PageView | None = None

    @property
    def alive(self) -> bool:
        """It has a process, or one is being started."""
        return self.stage not in ("absent", "done")


@dataclass(frozen=True)
class Store:
    """The rendezvous store this agent hosts; ``endpoint`` is None until it is up."""

    started: bool = False
    endpoint: Endpoint | None = None
    deaths: int = 0


@dataclass(frozen=True)
class Told:
    """What has been told already, so that every fact is told once; keys are verdict ids."""

    joined: str = ""
    formed: str = ""
    refused: str = ""
    first_step: str = ""
    advanced_step: int = 0
    advanced_at: float = 0.0


@dataclass(frozen=True)
class Ending:
    """Why the agent ends; workers alive past ``deadline`` (monotonic seconds) are killed, and saves
    that are not done by ``saved_by`` are abandoned."""

    reason: EndReason
    code: int
    detail: str
    deadline: float
    saved_by: float


@dataclass(frozen=True)
class Restored:
    """Where the agreed state came from, and when (monotonic seconds), as the slowest worker saw."""

    source: StateSource = "living"
    checkpoint: str = ""
    chosen_at: float | None = None
    loaded_at: float | None = None


@dataclass(frozen=True)
class AgentState:
    """Everything the agent knows. Values are replaced, never changed."""

    me: Me
    workers: tuple[Worker, ...]
    store: Store = Store()
    order: Order | None = None
    heard_at: float = 0.0
    left_seconds: float | None = None
    left_generation: int = 0
    agreed_step: int = 0
    steps_lost: int = 0
    restored: Restored = Restored()
    saves: Saves = field(default_factory=Saves)
    giving: Giving = field(default_factory=Giving)
    reached: str = ""
    reaching: str = ""
    bus_up: bool = False
    alive_at: float = 0.0
    newest_step: int = 0
    restarts: int = 0
    gossiped_at: float = 0.0
    told: Told = Told()
    ending: Ending | None = None
    exited: bool = False
    doubts: int = 0
    is_sure: bool = True
    ticked_at: float = 0.0
    vouched: tuple[object, ...] = ()
    vouched_at: float = float("-inf")
    sequence: int = 0
    reported_at: float = float("-inf")
    reported: tuple[object, ...] = ()

    @classmethod
    def new(cls, me: Me, moment: Moment) -> "AgentState":
        """An agent at its birth: nothing started, nothing heard."""
        workers = tuple(Worker(rank) for rank in range(me.gang.nproc_per_node))
        now = moment.monotonic
        return cls(me=me, workers=workers, alive_at=now, ticked_at=now)

    def with_worker(self, worker: Worker) -> "AgentState":
        """The state with this worker in place of the one of its local rank."""
        workers = list(self.workers)
        workers[worker.local_rank] = worker
        return replace(self, workers=tuple(workers))

    @property
    def generation(self) -> int:
        """Of the newest order heard; 0 before the first."""
        return self.order.generation if self.order else 0

    @property
    def verdict_id(self) -> str:
        """Of the newest order heard; empty before the first."""
        return self.order.verdict_id if self.order else ""
