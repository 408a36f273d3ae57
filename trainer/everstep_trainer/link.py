"""What an agent and its workers say to each other: JSON lines on a Unix socket.

The agent opens a socket pair before it starts a worker, so no path and no name is involved. Steps
are not told here but on the shared page (`page`): a training step costs no message.
"""

from typing import Annotated, Literal

from everstep_contract.base import Generation, Model, Name, Step
from everstep_contract.facts.member import StateSource
from everstep_contract.identity import Endpoint, JobKey
from everstep_contract.record import GenerationStart
from pydantic import Field, TypeAdapter

SOCKET_FD_VARIABLE = "EVERSTEP_LINK_FD"
PAGE_FD_VARIABLE = "EVERSTEP_PAGE_FD"
STATE_SLOTS_FD_VARIABLE = "EVERSTEP_STATE_SLOTS_FD"
RANK_SLOTS_FD_VARIABLE = "EVERSTEP_RANK_SLOTS_FD"
WORKER_FD_VARIABLES = (
    SOCKET_FD_VARIABLE,
    PAGE_FD_VARIABLE,
    STATE_SLOTS_FD_VARIABLE,
    RANK_SLOTS_FD_VARIABLE,
)
"""What a worker finds its descriptors by, in the order in which they are handed to it."""
MAX_LINE_BYTES = 1 << 20


class Assignment(Model):
    """Agent to worker: leave whatever group you are in and form this one (R16)."""

    kind: Literal["assignment"] = "assignment"
    job: JobKey
    job_uid: Name = Field(description="Names this life of the job: its checkpoints' lineage.")
    generation: Generation
    verdict_id: Name
    rank: int = Field(ge=0)
    world_size: int = Field(ge=1)
    local_rank: int = Field(ge=0)
    local_world_size: int = Field(ge=1)
    member_index: int = Field(ge=0, description="Index of the member among the seats.")
    members: tuple[str, ...] = Field(description="Incarnation of each rank's member, by rank.")
    store: Endpoint
    store_prefix: str
    stores: tuple[Endpoint, ...] = Field(
        default=(), description="Of all members, in rank order: where later generations may meet."
    )
    form_seconds: float = Field(gt=0)
    construct_seconds: float = Field(gt=0)
    history: tuple[GenerationStart, ...] = Field(
        default=(), description="Where generations before this one began."
    )


class Park(Model):
    """Agent to worker: leave the group, keep all state, wait (R9, R20)."""

    kind: Literal["park"] = "park"
    generation: Generation


class Finish(Model):
    """Agent to worker: leave the group; `generations` ends, so that the script can end."""

    kind: Literal["finish"] = "finish"
    reason: str


ToWorker = Annotated[Assignment | Park | Finish, Field(discriminator="kind")]


class Hello(Model):
    """Worker to agent: the script has joined."""

    kind: Literal["hello"] = "hello"
    local_rank: int = Field(ge=0)
    pid: int = Field(ge=1)


class Parked(Model):
    """Worker to agent: in no group, warm, waiting for an assignment."""

    kind: Literal["parked"] = "parked"
    generation: Generation = Field(description="Newest generation heard of; 0: none.")
    version: int = Field(ge=-1)


class Left(Model):
    """Worker to agent: out of the old group, on the way to ``generation``'s barrier (R16)."""

    kind: Literal["left"] = "left"
    generation: Generation
    left_generation: Generation
    version: int = Field(ge=-1)


class Formed(Model):
    """Worker to agent: the group is made and the state agreed; the next step can begin."""

    kind: Literal["formed"] = "formed"
    generation: Generation
    verdict_id: Name
    agreed_step: Step
    steps_lost: int = Field(ge=0, description="Newest step this worker held, less agreed.")
    source: StateSource = "living"
    checkpoint: str = ""
    chosen_at: float | None = Field(default=None, description="This machine's monotonic seconds.")
    loaded_at: float | None = Field(default=None, description="This machine's monotonic seconds.")


class FirstStep(Model):
    """Worker to agent: the first step of this generation is completed."""

    kind: Literal["first_step"] = "first_step"
    generation: Generation
    verdict_id: Name
    step: Step
    step_seconds: float = Field(ge=0)


class Failed(Model):
    """Worker to agent: a collective, or the forming, failed without an order to leave."""

    kind: Literal["failed"] = "failed"
    generation: Generation
    verdict_id: Name
    while_forming: bool
    peer_ranks: tuple[int, ...] = Field(default=(), description="Who the error names, if anybody.")
    detail: str = Field(max_length=2000)


class CheckpointDue(Model):
    """Worker to agent: its newest snapshot is to be made durable.

    ``writes_state``: of all that hold the same shard of the state, this worker's is to be written.
    """

    kind: Literal["checkpoint_due"] = "checkpoint_due"
    generation: Generation
    step: Step
    writes_state: bool


class FoundDamage(Model):
    """Worker to agent: a checkpoint is not what was written, so another is loaded."""

    kind: Literal["found_damage"] = "found_damage"
    checkpoint: Name
    detail: str = Field(max_length=2000)


class Finished(Model):
    """Worker to agent: the loop reached its end."""

    kind: Literal["finished"] = "finished"
    step: Step


ToAgent = Annotated[
    Hello | Parked | Left | Formed | FirstStep | CheckpointDue | FoundDamage | Failed | Finished,
    Field(discriminator="kind"),
]

TO_WORKER: TypeAdapter[ToWorker] = TypeAdapter(ToWorker)
TO_AGENT: TypeAdapter[ToAgent] = TypeAdapter(ToAgent)


def to_line(message: ToWorker | ToAgent) -> bytes:
    """One message as one line."""
    return message.model_dump_json().encode() + b"\n"
