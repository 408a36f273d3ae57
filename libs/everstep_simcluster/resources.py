"""The kinds of object the API server serves, and how each one differs from the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
"""A Kubernetes object as JSON. What the store holds is never changed in place: copy it first."""

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Column:
    """One column of a printed table: its title, its JSON type and where its value lies."""

    name: str
    type: str
    path: str


@dataclass(frozen=True, eq=False)
class Resource:
    """One served kind.

    ``custom`` kinds take no strategic patch, answer a delete with a Status and allow field
    selectors on name and namespace only. ``versioned_updates`` kinds refuse an update that
    carries no resourceVersion. ``counts_generations`` kinds bump metadata.generation when what
    was asked for changes.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    custom: bool = False
    versioned_updates: bool = False
    counts_generations: bool = False
    field_selectors: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[Column, ...] = ()

    @property
    def api_version(self) -> str:
        """``group/version`` as objects carry it; the core group has no name."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name that error messages use: ``jobs.batch.volcano.sh``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        """Whether status is written through a path of its own only."""
        return "status" in self.subresources


_AGE = Column("Age", "date", "metadata.creationTimestamp")
_VOLCANO_AGE = Column("AGE", "date", "metadata.creationTimestamp")

NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",),
    subresources=("status",), columns=(Column("Status", "string", "status.phase"), _AGE),
)  # fmt: skip
NODES = Resource(
    "", "v1", "nodes", "Node", namespaced=False, short_names=("no",), subresources=("status",),
    field_selectors={"spec.unschedulable": "spec.unschedulable"},
)  # fmt: skip
PODS = Resource(
    "", "v1", "pods", "Pod", short_names=("po",), counts_generations=True,
    subresources=("status", "binding", "eviction", "log"),
    field_selectors={
        path: path
        for path in (
            "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
            "status.phase", "status.podIP", "status.nominatedNodeName",
        )
    },
)  # fmt: skip
EVENTS = Resource(
    "", "v1", "events", "Event", short_names=("ev",),
    field_selectors={
        path: path
        for path in (
            "involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
            "involvedObject.uid", "reason", "type",
        )
    },
    columns=(
        Column("Last Seen", "date", "lastTimestamp"), Column("Type", "string", "type"),
        Column("Reason", "string", "reason"),
        Column("Object", "string", "involvedObject.name"),
        Column("Message", "string", "message"),
    ),
)  # fmt: skip
SERVICE_ACCOUNTS = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), columns=(_AGE,)
)
CONFIG_MAPS = Resource(
    "", "v1", "configmaps", "ConfigMap", short_names=("cm",), columns=(_AGE,)
)  # fmt: skip
LEASES = Resource(
    "coordination.k8s.io", "v1", "leases", "Lease", versioned_updates=True,
    columns=(Column("Holder", "string", "spec.holderIdentity"), _AGE),
)  # fmt: skip
BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", short_names=("pdb",),
    subresources=("status",), counts_generations=True, versioned_updates=True,
    columns=(
        Column("Min Available", "string", "spec.minAvailable"),
        Column("Max Unavailable", "string", "spec.maxUnavailable"),
        Column("Allowed Disruptions", "integer", "status.disruptionsAllowed"), _AGE,
    ),
)  # fmt: skip
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False,
    short_names=("pc",), counts_generations=True,
    columns=(Column("Value", "integer", "value"), _AGE),
)  # fmt: skip
JOBS = Resource(
    "batch.volcano.sh", "v1alpha1", "jobs", "Job", short_names=("vcjob", "vj"),
    subresources=("status",), custom=True, counts_generations=True, versioned_updates=True,
    columns=(
        Column("STATUS", "string", "status.state.phase"),
        Column("minAvailable", "integer", "status.minAvailable"),
        Column("RUNNINGS", "integer", "status.running"), _VOLCANO_AGE,
    ),
)  # fmt: skip
POD_GROUPS = Resource(
    "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup",
    short_names=("pg", "podgroup-v1beta1"), custom=True, counts_generations=True,
    versioned_updates=True,
    columns=(
        Column("STATUS", "string", "status.phase"),
        Column("minMember", "integer", "spec.minMember"),
        Column("RUNNINGS", "integer", "status.running"), _VOLCANO_AGE,
    ),
)  # fmt: skip
QUEUES = Resource(
    "scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False,
    short_names=("q", "queue-v1beta1"), subresources=("status",), custom=True,
    counts_generations=True, versioned_updates=True,
    columns=(Column("PARENT", "string", "spec.parent"),),
)  # fmt: skip
COMMANDS = Resource(
    "bus.volcano.sh", "v1alpha1", "commands", "Command", custom=True, counts_generations=True,
    versioned_updates=True, columns=(_VOLCANO_AGE,),
)  # fmt: skip

RESOURCES = (
    NAMESPACES, NODES, PODS, EVENTS, SERVICE_ACCOUNTS, CONFIG_MAPS, LEASES, BUDGETS,
    PRIORITY_CLASSES, JOBS, POD_GROUPS, QUEUES, COMMANDS,
)  # fmt: skip


def find_resource(group: str, version: str, plural: str) -> Resource | None:
    """The served kind of that path, or None: the server then knows no such page."""
    for resource in RESOURCES:
        if (resource.group, resource.version, resource.plural) == (group, version, plural):
            return resource
    return None


def value_at(body: Any, path: str) -> Any:
    """The value under a dotted ``path`` of ``body``; None where the path breaks off."""
    for part in path.split("."):
        if not isinstance(body, dict):
            return None
        body = body.get(part)
    return body
