"""Facts about machines."""

from typing import ClassVar, Literal

from pydantic import Field

from everstep_contract.base import Event, Model, Name, Text
from everstep_contract.identity import MachineIds


class NodeEvent(Event):
    """A fact about one node."""

    node: Name

    @property
    def entity_id(self) -> str:
        return self.node


ConditionMeaning = Literal["pressure", "network", "hardware", "system", "planned", "unjudged"]


class NodeCondition(Model):
    """A condition of a node that speaks against it; ``unjudged``: no rule here knows its type."""

    type: Name
    status: str = Field(max_length=253)
    reason: str = Field(default="", max_length=253)
    message: Text = ""
    meaning: ConditionMeaning


class NodeObserved(NodeEvent):
    """Kubernetes' word about a node changed; NotReady and Unknown are evidence, not proof (R11).

    ``conditions`` are those beside Ready that are bad or unknown to us, ``taints`` as kubectl
    writes them. Cordoned: unschedulable; by somebody else unless ``cordoned_by`` has our incident.
    """

    TYPE: ClassVar[str] = "everstep.node.observed.v1"

    ready: Literal["True", "False", "Unknown"]
    ready_reason: Text = ""
    boot_id: str = Field(default="", max_length=64)
    node_uid: str = Field(
        default="", max_length=253, description="Another one: made anew under the same name."
    )
    deleted: bool = False
    out_of_service: bool = Field(default=False, description="The out-of-service taint: proof.")
    machines: MachineIds = ()
    conditions: tuple[NodeCondition, ...] = Field(default=(), max_length=32)
    taints: tuple[str, ...] = Field(default=(), max_length=32)
    cordoned: bool = False
    cordoned_by: str = Field(default="", max_length=253)
    leaving: str = Field(
        default="", max_length=600, description="The taint by which somebody plans to take it away."
    )
    resource_version: str = Field(max_length=64)

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.node}/{self.resource_version}/{self.deleted}"


class NodeQuarantined(NodeEvent):
    """Everstep cordoned and tainted the node (R23)."""

    TYPE: ClassVar[str] = "everstep.node.quarantined.v1"

    incident: Name
    reason: Text
    by: str = Field(default="", max_length=253, description="Who asked; empty: Everstep itself.")

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.node}/{self.incident}"


class NodeReleased(NodeEvent):
    """Everstep undid what it had done to the node, and nothing else (R25)."""

    TYPE: ClassVar[str] = "everstep.node.released.v1"

    incident: Name
    reason: Text
    by: str = Field(default="", max_length=253, description="Who asked; empty: Everstep itself.")

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.node}/{self.incident}"


class NodeWritten(NodeEvent):
    """Everstep wrote to a node on a person's word, which no job's audit has (DESIGN 7)."""

    TYPE: ClassVar[str] = "everstep.node.written.v1"

    verb: Literal["cordon", "taint", "release"]
    incident: Name
    by: Name
    reason: Text
    outcome: Literal["done", "already", "refused"]
    detail: Text = ""

    @property
    def dedup_id(self) -> str:
        written = f"{self.verb}/{self.incident}/{self.outcome}"
        return f"{self.TYPE}/{self.node}/{written}/{self.at.isoformat()}"


class WatcherBlinded(NodeEvent):
    """The watcher cannot tell silence from its own blindness: nothing may be concluded (R14).

    ``node`` is where the watcher itself runs.
    """

    TYPE: ClassVar[str] = "everstep.node.watcher_blinded.v1"

    episode: int = Field(ge=1)
    detail: Text

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.node}/{self.at.isoformat()}/{self.episode}"


class WatcherSighted(NodeEvent):
    """The watcher sees again."""

    TYPE: ClassVar[str] = "everstep.node.watcher_sighted.v1"

    episode: int = Field(ge=1)

    @property
    def dedup_id(self) -> str:
        return f"{self.TYPE}/{self.node}/{self.at.isoformat()}/{self.episode}"
