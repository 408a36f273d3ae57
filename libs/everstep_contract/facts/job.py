"""Facts about one job: what the cluster says of it, verdicts, orders, steps."""

from typing import ClassVar, Literal

from pydantic import Field

from everstep_contract.base import Event, Generation, Model, Name, Step, Text
from everstep_contract.identity import GangSpec, JobKey, Member
from everstep_contract.orders import Order
from everstep_contract.rescaling import JobSize
from everstep_contract.verdicts import Evidence, Verdict


class JobEvent(Event):
    """A fact about one job."""

    job: JobKey
    job_uid: Name

    @property
    def entity_id(self) -> str:
        return self.job_uid


class JobObserved(JobEvent):
    """The Volcano Job and its PodGroup as the cluster has them."""

    TYPE: ClassVar[str] = "everstep.job.observed.v1"

    gang: GangSpec
    annotated_generation: Generation = Field(description="R5: survives a lost bus.")
    deleted: bool = False
    resource_version: str = Field(max_length=64)

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.job_uid}/{self.resource_version}/{self.deleted}"


PodCause = Literal[
    "",
    "deleted",
    "preempted",
    "evicted",
    "tainted",
    "shutdown",
    "pressure",
    "orphaned",
    "node_lost",
    "rejected",
]
"""deleted: by a person or a controller · preempted: for a more important pod · evicted: by the
eviction API, as a drain does · tainted: a NoExecute taint · shutdown: the node shuts down ·
pressure: the node lacked memory, disk or pids · orphaned: collected because its node is gone or out
of service · node_lost: its node fell silent · rejected: the kubelet never started it."""


class ContainerObserved(Model):
    """A container that waits, has ended, or runs again after an end, and why."""

    name: str = Field(max_length=253)
    state: Literal["waiting", "running", "terminated"]
    reason: str = Field(default="", max_length=253)
    message: Text = ""
    exit_code: int | None = None
    restarts: int = Field(default=0, ge=0)


class PodObserved(JobEvent):
    """A pod of the job changed in the API; ``deleted``: the object itself is gone.

    ``cause``: why it ends. ``planned``: somebody asked it to go while its node was well, so that
    its end is no failure (EC-54).
    """

    TYPE: ClassVar[str] = "everstep.job.pod_observed.v1"

    pod: Name
    pod_uid: Name
    node: str = Field(default="", max_length=253)
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
    terminating: bool = False
    terminated: bool = Field(default=False, description="Every container has terminated.")
    deleted: bool = False
    reason: Text = ""
    cause: PodCause = ""
    planned: bool = False
    grace_seconds: int | None = Field(default=None, ge=0, description="Of its deletion.")
    containers: tuple[ContainerObserved, ...] = Field(default=(), max_length=16)
    resource_version: str = Field(max_length=64)

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.pod_uid}/{self.resource_version}/{self.deleted}"


class VerdictReached(JobEvent):
    """The adjudicator ruled. For all but tolerate the job's record says the same (R4)."""

    TYPE: ClassVar[str] = "everstep.job.verdict_reached.v1"

    verdict_id: Name
    generation: Generation = Field(description="The generation that results.")
    verdict: Verdict
    reason: Text
    evidence: tuple[Evidence, ...] = ()
    incident: str | None = None

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.job_uid}/{self.generation}/{self.verdict_id}"


class OrderIssued(JobEvent):
    """A copy of an order, for history (R8)."""

    TYPE: ClassVar[str] = "everstep.job.order_issued.v1"

    order: Order

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.job_uid}/{self.order.generation}/{self.order.verdict_id}"


class StepAdvanced(JobEvent):
    """The job took steps: told at a generation's first step and then rate-limited."""

    TYPE: ClassVar[str] = "everstep.job.step_advanced.v1"

    member: Member
    generation: Generation
    verdict_id: Name
    step: Step
    first: bool = Field(description="The first step of this generation.")
    step_seconds: float = Field(ge=0)

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.member.incarnation}/{self.generation}/{self.step}"


class ClusterWritten(JobEvent):
    """Everstep wrote to the cluster: the audit of every write (DESIGN 7)."""

    TYPE: ClassVar[str] = "everstep.job.cluster_written.v1"

    verb: Literal[
        "cordon",
        "taint",
        "release",
        "delete_pod",
        "force_delete_pod",
        "annotate",
        "evict",
        "rescale",
    ]
    target: Name
    target_uid: str = Field(default="", max_length=253)
    generation: Generation
    outcome: Literal["done", "already", "refused"]
    detail: Text = Field(default="", description="Why it was due; of a refused one why it is not.")
    incident: str | None = None
    by: str = Field(default="", max_length=253, description="Who asked; empty: Everstep itself.")

    @property
    def dedup_id(self) -> str:
        return (
            f"{self.TYPE}/{self.job_uid}/{self.generation}/{self.verb}"
            f"/{self.target}/{self.target_uid}/{self.outcome}"
        )


class RescaleAnswered(JobEvent):
    """What the rescaler says to a wish for another size: it is possible, it is so, or it is not.

    Nothing is changed before it is possible, and nobody leaves the gang for it.
    """

    TYPE: ClassVar[str] = "everstep.job.rescale_answered.v1"

    wish: Name
    answer: Literal["possible", "done", "refused"]
    size: JobSize | None = Field(default=None, description="The Job's now; None: not known.")
    detail: Text = ""

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.job_uid}/{self.wish}/{self.answer}"
