"""Every message there is, by type; and which key-value bucket holds what."""

from typing import Final

from everstep_contract.base import Event, Message
from everstep_contract.checkpoint_queries import (
    CheckpointPinned,
    ListCheckpoints,
    ListCheckpointsReply,
    PinCheckpoint,
    PruneCheckpoints,
    PruneCheckpointsReply,
)
from everstep_contract.dead import DeadLetter
from everstep_contract.errors import UnknownTypeError
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
from everstep_contract.node_queries import (
    DrainNode,
    NodeStanding,
    NodeStatus,
    QuarantineNode,
    ReleaseNode,
)
from everstep_contract.orders import Order
from everstep_contract.queries import (
    CommandAccepted,
    JobStatus,
    JobStatusReply,
    LatestCheckpoint,
    LatestCheckpointReply,
    ProbeMember,
    ProbeReply,
    Query,
    Refused,
    Reply,
    RescaleJob,
    ResumeJob,
    SuspendJob,
)
from everstep_contract.telemetry import MemberReport

EVENTS: Final[tuple[type[Event], ...]] = (
    NodeObserved,
    NodeQuarantined,
    NodeReleased,
    NodeWritten,
    WatcherBlinded,
    WatcherSighted,
    MemberJoined,
    MemberFormed,
    MemberLeft,
    MemberSuspected,
    MemberRecovered,
    OrderRefused,
    WorkerExited,
    CollectiveFailed,
    JobObserved,
    PodObserved,
    VerdictReached,
    OrderIssued,
    StepAdvanced,
    ClusterWritten,
    RescaleAnswered,
    IncidentOpened,
    IncidentEnded,
    ShardPrepared,
    SaveFailed,
    CheckpointCommitted,
    CheckpointDamaged,
)
QUERIES: Final[tuple[type[Query], ...]] = (
    ProbeMember,
    LatestCheckpoint,
    ListCheckpoints,
    PinCheckpoint,
    PruneCheckpoints,
    JobStatus,
    SuspendJob,
    ResumeJob,
    RescaleJob,
    NodeStatus,
    QuarantineNode,
    ReleaseNode,
    DrainNode,
)
REPLIES: Final[tuple[type[Reply], ...]] = (
    Refused,
    ProbeReply,
    LatestCheckpointReply,
    ListCheckpointsReply,
    CheckpointPinned,
    PruneCheckpointsReply,
    JobStatusReply,
    CommandAccepted,
    NodeStanding,
)
MESSAGES: Final[tuple[type[Message], ...]] = (
    *EVENTS,
    *QUERIES,
    *REPLIES,
    MemberReport,
    Order,
    DeadLetter,
)
_BY_TYPE: Final = {message.TYPE: message for message in MESSAGES}


def message_class(message_type: str) -> type[Message]:
    """The model of a declared type.

    Raises:
        UnknownTypeError: This version has none.
    """
    try:
        return _BY_TYPE[message_type]
    except KeyError:
        raise UnknownTypeError(message_type) from None
