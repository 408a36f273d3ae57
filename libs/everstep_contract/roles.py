"""What each role may do on the bus, as data; whatever is not granted here is denied (DESIGN 10).

An agent's grant holds for its own job only: pods of one job share its credentials.
"""

from dataclasses import dataclass
from typing import Any, Final

from everstep_contract.base import Event
from everstep_contract.checkpoint_queries import ListCheckpoints, PinCheckpoint, PruneCheckpoints
from everstep_contract.clients import AgentClient, Role, ServiceClient
from everstep_contract.facts.checkpoint import (
    CheckpointCommitted,
    CheckpointDamaged,
    SaveFailed,
    ShardPrepared,
)
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened
from everstep_contract.facts.job import (
    ClusterWritten,
    JobObserved,
    OrderIssued,
    PodObserved,
    RescaleAnswered,
    StepAdvanced,
    VerdictReached,
)
from everstep_contract.facts.member import (
    MemberFormed,
    MemberJoined,
    MemberLeft,
    MemberRecovered,
    MemberSuspected,
    OrderRefused,
)
from everstep_contract.facts.node import (
    NodeObserved,
    NodeQuarantined,
    NodeReleased,
    NodeWritten,
    WatcherBlinded,
    WatcherSighted,
)
from everstep_contract.facts.worker import CollectiveFailed, WorkerExited
from everstep_contract.layout import (
    BUCKETS,
    CHECKPOINTS,
    INCIDENTS,
    JOBS,
    LEASES,
    NODES,
    STREAMS,
    Bucket,
    Stream,
)
from everstep_contract.node_queries import DrainNode, NodeStatus, QuarantineNode, ReleaseNode
from everstep_contract.queries import (
    JobStatus,
    LatestCheckpoint,
    ProbeMember,
    Query,
    RescaleJob,
    ResumeJob,
    SuspendJob,
)

NODE_QUERIES: Final = (NodeStatus, QuarantineNode, ReleaseNode, DrainNode)


@dataclass(frozen=True)
class Grant:
    """What one role may do."""

    publishes: tuple[type[Event], ...] = ()
    reports: bool = False
    """Publishes telemetry."""
    posts_orders: bool = False
    hears_orders: bool = False
    reads: tuple[Stream, ...] = ()
    consumes: bool = False
    """Has durable consumers of what it reads."""
    reads_buckets: tuple[Bucket[Any], ...] = ()
    writes_buckets: tuple[Bucket[Any], ...] = ()
    asks: tuple[type[Query], ...] = ()
    answers: tuple[type[Query], ...] = ()
    buries: bool = False
    """Publishes to DEAD what it cannot decode."""
    provisions: bool = False
    """Makes streams and buckets that are missing."""


def _service(
    *,
    publishes: tuple[type[Event], ...],
    writes: tuple[Bucket[Any], ...],
    asks: tuple[type[Query], ...] = (),
    answers: tuple[type[Query], ...] = (),
    posts_orders: bool = False,
) -> Grant:
    """A service reads everything, writes its own, and leads by a lease."""
    return Grant(
        publishes=publishes,
        posts_orders=posts_orders,
        reads=STREAMS,
        consumes=True,
        reads_buckets=BUCKETS,
        writes_buckets=(*writes, LEASES),
        asks=asks,
        answers=answers,
        buries=True,
        provisions=True,
    )


GRANTS: Final[dict[Role, Grant]] = {
    "agent": Grant(
        publishes=(
            MemberJoined,
            MemberFormed,
            MemberLeft,
            OrderRefused,
            WorkerExited,
            CollectiveFailed,
            StepAdvanced,
            ShardPrepared,
            SaveFailed,
            CheckpointDamaged,
        ),
        reports=True,
        hears_orders=True,
        answers=(ProbeMember,),
        buries=True,
    ),
    "node_watcher": _service(
        publishes=(
            MemberSuspected,
            MemberRecovered,
            WatcherBlinded,
            WatcherSighted,
            NodeObserved,
            PodObserved,
            JobObserved,
        ),
        writes=(),
    ),
    "adjudicator": _service(
        publishes=(VerdictReached, IncidentOpened, IncidentEnded),
        writes=(JOBS, INCIDENTS),
        asks=(ProbeMember, LatestCheckpoint),
        answers=(JobStatus, SuspendJob, ResumeJob, RescaleJob),
    ),
    "rescaler": _service(
        publishes=(
            *(OrderIssued, ClusterWritten, RescaleAnswered),
            *(NodeQuarantined, NodeReleased, NodeWritten),
        ),
        writes=(NODES,),
        answers=NODE_QUERIES,
        posts_orders=True,
    ),
    "checkpoint_indexer": _service(
        publishes=(CheckpointCommitted,),
        writes=(CHECKPOINTS,),
        answers=(LatestCheckpoint, ListCheckpoints, PinCheckpoint, PruneCheckpoints),
    ),
    "operator": Grant(
        reads=STREAMS,
        reads_buckets=BUCKETS,
        asks=(
            *(JobStatus, SuspendJob, ResumeJob, RescaleJob),
            *(LatestCheckpoint, ListCheckpoints, PinCheckpoint, PruneCheckpoints),
            *NODE_QUERIES,
        ),
    ),
    "canary": Grant(),
}


def inbox_prefix(client: AgentClient | ServiceClient) -> str:
    """Where the answers to a client's requests arrive; no other role may listen there."""
    if isinstance(client, AgentClient):
        return f"_INBOX.agent.{client.job.token}"
    return f"_INBOX.{client.role}"


def grant_of(client: AgentClient | ServiceClient) -> Grant:
    """The grant of whoever connects as ``client``."""
    return GRANTS["agent" if isinstance(client, AgentClient) else client.role]
