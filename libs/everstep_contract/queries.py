"""Request and reply: probes between agents, questions of people and tools, operators' commands."""

from typing import ClassVar, Literal

from pydantic import Field

from everstep_contract.base import Generation, Message, Name, Step, Text
from everstep_contract.identity import Endpoint, JobKey
from everstep_contract.names import encode_name
from everstep_contract.record import CheckpointRecord, IncidentRecord, JobRecord
from everstep_contract.rescaling import MOST_MEMBERS


class Query(Message):
    """A question with exactly one kind of reply. ``service`` and ``query`` make its subject."""

    SERVICE: ClassVar[str]
    QUERY: ClassVar[str]
    REPLY: ClassVar[type["Reply"]]

    @property
    def address(self) -> str:
        """Whose answer is wanted when many serve the query; empty: anybody's."""
        return ""


class Reply(Message):
    """The answer to a query."""


class Refused(Reply):
    """The question was understood and is not answered, for this reason."""

    TYPE: ClassVar[str] = "everstep.rpc.refused.v1"

    reason: Text


ProbeOutcome = Literal["alive", "refused", "silent", "other_incarnation"]


class ProbeReply(Reply):
    """What the asked agent found at the target's peer port."""

    TYPE: ClassVar[str] = "everstep.rpc.agent.probe_reply.v1"

    target: Name
    outcome: ProbeOutcome
    witness: Name
    seconds: float = Field(ge=0)
    detail: Text = ""


class ProbeMember(Query):
    """Ask one agent to look at another over the training network (R11, indirect probe)."""

    TYPE: ClassVar[str] = "everstep.rpc.agent.probe_member.v1"
    SERVICE: ClassVar[str] = "agent"
    QUERY: ClassVar[str] = "probe_member"
    REPLY: ClassVar[type[Reply]] = ProbeReply

    job: JobKey
    witness: Name = Field(description="Incarnation that is asked.")
    target: Name = Field(description="Incarnation that is looked at.")
    endpoint: Endpoint
    timeout_seconds: float = Field(gt=0, le=10)

    @property
    def address(self) -> str:
        return f"{self.job.token}.{encode_name(self.witness)}"


class LatestCheckpointReply(Reply):
    """The newest valid committed checkpoint, or None."""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.latest_reply.v1"

    record: CheckpointRecord | None


class LatestCheckpoint(Query):
    """Which checkpoint would a job restore from?"""

    TYPE: ClassVar[str] = "everstep.rpc.checkpoint_indexer.latest.v1"
    SERVICE: ClassVar[str] = "checkpoint_indexer"
    QUERY: ClassVar[str] = "latest"
    REPLY: ClassVar[type[Reply]] = LatestCheckpointReply

    job: JobKey


class JobStatusReply(Reply):
    """The job's record and its open incidents, as the adjudicator holds them."""

    TYPE: ClassVar[str] = "everstep.rpc.adjudicator.job_status_reply.v1"

    record: JobRecord | None
    incidents: tuple[IncidentRecord, ...]
    waiting_for: Text = Field(default="", description="What the next verdict waits for.")
    step: Step = Field(default=0, description="Newest step that a member has completed.")
    parked: int = Field(
        default=0,
        ge=0,
        description="Members that hold under this generation, and keep their state.",
    )


class JobStatus(Query):
    """How is the job, and what does the adjudicator wait for now?"""

    TYPE: ClassVar[str] = "everstep.rpc.adjudicator.job_status.v1"
    SERVICE: ClassVar[str] = "adjudicator"
    QUERY: ClassVar[str] = "job_status"
    REPLY: ClassVar[type[Reply]] = JobStatusReply

    job: JobKey


class CommandAccepted(Reply):
    """The command is in the job's record; a rescale that moves nobody is no new generation (R7)."""

    TYPE: ClassVar[str] = "everstep.rpc.adjudicator.command_accepted.v1"

    generation: Generation


class SuspendJob(Query):
    """Operator: stop stepping and keep state. ``generation`` is the one the operator looked at."""

    TYPE: ClassVar[str] = "everstep.rpc.adjudicator.suspend_job.v1"
    SERVICE: ClassVar[str] = "adjudicator"
    QUERY: ClassVar[str] = "suspend_job"
    REPLY: ClassVar[type[Reply]] = CommandAccepted

    job: JobKey
    generation: Generation
    reason: Text


class ResumeJob(Query):
    """Operator: go on after a suspension. ``generation`` is the one the operator looked at."""

    TYPE: ClassVar[str] = "everstep.rpc.adjudicator.resume_job.v1"
    SERVICE: ClassVar[str] = "adjudicator"
    QUERY: ClassVar[str] = "resume_job"
    REPLY: ClassVar[type[Reply]] = CommandAccepted

    job: JobKey
    generation: Generation
    reason: Text


class RescaleJob(Query):
    """Operator: run with another number of members, as pods of the Job.

    ``generation`` is the one the operator looked at.
    """

    TYPE: ClassVar[str] = "everstep.rpc.adjudicator.rescale_job.v1"
    SERVICE: ClassVar[str] = "adjudicator"
    QUERY: ClassVar[str] = "rescale_job"
    REPLY: ClassVar[type[Reply]] = CommandAccepted

    job: JobKey
    generation: Generation
    replicas: int = Field(ge=1, le=MOST_MEMBERS)
    min_available: int | None = Field(
        default=None, ge=1, le=MOST_MEMBERS, description="None: as now, or fewer if it must be."
    )
    reason: Text
