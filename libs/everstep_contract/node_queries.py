"""Request and reply of the rescaler: nodes taken out of use by a person, and given back."""

from typing import ClassVar

from pydantic import Field

from everstep_contract.base import Name, Text
from everstep_contract.queries import Query, Reply
from everstep_contract.record import NodeRecord

MAX_DRAIN_SECONDS: float = 7 * 24 * 3600.0


class NodeStanding(Reply):
    """The node as it stands now, and what was done about it, in a sentence for people."""

    TYPE: ClassVar[str] = "everstep.rpc.rescaler.node_standing.v1"

    record: NodeRecord | None = Field(description="None: Everstep never did anything to it.")
    said: Text = ""
    members: tuple[Name, ...] = Field(
        default=(), max_length=1000, description="Seated on it: namespace/job and member."
    )
    waiting_for: Text = Field(default="", description="What the next eviction waits for.")
    drained: bool = Field(default=False, description="It is drained, and nobody is seated on it.")


class NodeStatus(Query):
    """How does a node stand, and what does its drain wait for?"""

    TYPE: ClassVar[str] = "everstep.rpc.rescaler.node_status.v1"
    SERVICE: ClassVar[str] = "rescaler"
    QUERY: ClassVar[str] = "node_status"
    REPLY: ClassVar[type[Reply]] = NodeStanding

    node: Name


class QuarantineNode(Query):
    """Operator: let no new pod onto the node until it is released."""

    TYPE: ClassVar[str] = "everstep.rpc.rescaler.quarantine_node.v1"
    SERVICE: ClassVar[str] = "rescaler"
    QUERY: ClassVar[str] = "quarantine_node"
    REPLY: ClassVar[type[Reply]] = NodeStanding

    node: Name
    reason: Text
    by: Name = Field(description="Who asks, as text: user and machine.")


class ReleaseNode(Query):
    """Operator: end the node's quarantine or drain, and undo what Everstep did to it."""

    TYPE: ClassVar[str] = "everstep.rpc.rescaler.release_node.v1"
    SERVICE: ClassVar[str] = "rescaler"
    QUERY: ClassVar[str] = "release_node"
    REPLY: ClassVar[type[Reply]] = NodeStanding

    node: Name
    reason: Text
    by: Name = Field(description="Who asks, as text: user and machine.")


class DrainNode(Query):
    """Operator: as `QuarantineNode`, and evict the members on it, one at a time (EC-54)."""

    TYPE: ClassVar[str] = "everstep.rpc.rescaler.drain_node.v1"
    SERVICE: ClassVar[str] = "rescaler"
    QUERY: ClassVar[str] = "drain_node"
    REPLY: ClassVar[type[Reply]] = NodeStanding

    node: Name
    reason: Text
    by: Name = Field(description="Who asks, as text: user and machine.")
    timeout_seconds: float = Field(
        gt=0, le=MAX_DRAIN_SECONDS, description="How long evictions are tried."
    )
