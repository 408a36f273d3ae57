"""Looks at the cluster and the job's record, before a fault and after it."""

from typing import Any, Final

from everstep_bus.interface import Bus
from everstep_contract.layout import JOBS
from everstep_kube.node_words import QUARANTINE_TAINT
from everstep_kube.objects import GENERATION_ANNOTATION

from everstep_cli.drill.audit import cluster_writes
from everstep_cli.drill.awaiting import Injured
from everstep_cli.drill.cluster import ClusterClient
from everstep_cli.drill.cluster_judge import ClusterSeen, ClusterState
from everstep_cli.drill.manifest import JOB
from everstep_cli.waiting import answered

NOTE_SECONDS: Final = 10.0
"""How long the newest generation may take to be noted on the Job."""


async def cluster_state(cluster: ClusterClient, bus: Bus) -> ClusterState:
    """The cluster as it is now."""
    job = await cluster.job(JOB.namespace, JOB.name)
    nodes = await cluster.node_objects()
    entry = await bus.kv(JOBS).get(JOB.token)
    record = entry.value if entry else None
    pods = (pod["metadata"] for pod in await cluster.pods(JOB.namespace))
    notes = job["metadata"].get("annotations") or {}
    return ClusterState(
        retries=int(job.get("status", {}).get("retryCount") or 0),
        uids={pod["name"]: pod["uid"] for pod in pods},
        cordoned=frozenset(_name(node) for node in nodes if node["spec"].get("unschedulable")),
        quarantined=frozenset(_name(node) for node in nodes if _is_quarantined(node)),
        failures=record.failures_without_progress if record else 0,
        noted=int(notes.get(GENERATION_ANNOTATION, 0)),
    )


async def cluster_seen(
    cluster: ClusterClient, bus: Bus, before: ClusterState, injured: Injured
) -> ClusterSeen:
    """What became of it since the fault, once the newest generation is noted on the Job."""
    entry = await bus.kv(JOBS).get(JOB.token)
    newest = entry.value.generation if entry and entry.value else 0

    async def noted() -> ClusterState | None:
        now = await cluster_state(cluster, bus)
        return now if now.noted == newest else None

    found = await answered(noted, within_seconds=NOTE_SECONDS)
    return ClusterSeen(
        before=before,
        after=found or await cluster_state(cluster, bus),
        hurt=frozenset(member.name for member in injured.members),
        node=injured.members[0].node,
        generation=newest,
        writes=cluster_writes(await cluster.audit(), injured.since),
    )


def _name(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"])


def _is_quarantined(node: dict[str, Any]) -> bool:
    return any(taint["key"] == QUARANTINE_TAINT for taint in node["spec"].get("taints") or ())
