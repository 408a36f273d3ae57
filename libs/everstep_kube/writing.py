"""Writes to the cluster, each conditional on what was just read, each changing only what is ours.

A node's taints are replaced as a whole, so the patch carries the resource version they were read
at. Pods and Jobs carry their uid: names are used again within milliseconds.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from everstep_contract.identity import JobKey

from everstep_kube.client import MERGE_PATCH, Json, KubeClient, Request
from everstep_kube.errors import ConflictError, NotFoundError
from everstep_kube.events import Saying, say
from everstep_kube.node_words import QUARANTINE_TAINT
from everstep_kube.objects import (
    CORDON_ANNOTATION,
    GENERATION_ANNOTATION,
    INCIDENT_ANNOTATION,
    ON_BEHALF_ANNOTATION,
    REASON_ANNOTATION,
    SINCE_ANNOTATION,
    JobState,
    NodeState,
    PodState,
    job_state,
    node_state,
    pod_state,
)
from everstep_kube.resizing import Resizing, jobs_path

JOBS_PATH: Final = "/apis/batch.volcano.sh/v1alpha1/jobs"
PODS_PATH: Final = "/api/v1/pods"
NODES_PATH: Final = "/api/v1/nodes"
OUR_ANNOTATIONS: Final = (
    *(CORDON_ANNOTATION, INCIDENT_ANNOTATION, REASON_ANNOTATION),
    *(SINCE_ANNOTATION, ON_BEHALF_ANNOTATION),
)
"""What `ClusterApi.quarantine` writes on a node, and `ClusterApi.release` takes away."""
Written = Literal["done", "already"]


@dataclass(frozen=True)
class Mark:
    """What a quarantined node says of its quarantine, to whoever describes it."""

    incident: str
    reason: str
    since: str
    on_behalf_of: str


class ClusterApi:
    """The objects Everstep reads and changes. Reads are quorum reads: never from a cache."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def guarded(self, may_write: Callable[[], None]) -> "ClusterApi":
        """This API for one that must not write any more once ``may_write`` raises."""
        return ClusterApi(self._client.guarded(may_write))

    @property
    def sizes(self) -> Resizing:
        """The sizes of Jobs."""
        return Resizing(self._client)

    async def node(self, name: str) -> NodeState | None:
        """The node, if there is one of that name."""
        return await self._client.find(NODES_PATH, name, node_state)

    async def pod(self, namespace: str, name: str) -> PodState | None:
        """The pod, if there is one of that name and a Volcano Job owns it."""
        return await self._client.find(f"/api/v1/namespaces/{namespace}/pods", name, pod_state)

    async def job(self, job: JobKey) -> JobState | None:
        """The Job, if there is one of that name."""
        return await self._client.find(jobs_path(job.namespace), job.name, job_state)

    async def delete_pod(self, pod: PodState, *, force: bool) -> Written:
        """Delete this very pod; ``force`` does not wait for its kubelet.

        ``already``: it is gone, or its name belongs to another now.
        """
        body: Json = {"preconditions": {"uid": pod.uid}}
        if force:
            body["gracePeriodSeconds"] = 0
        path = f"/api/v1/namespaces/{pod.job.namespace}/pods/{pod.name}"
        try:
            await self._client.call(Request("DELETE", path, body=body))
        except (NotFoundError, ConflictError):
            return "already"
        return "done"

    async def annotate_job(self, job: JobState, generation: int) -> Written:
        """Write the generation on the Job as it was read: it survives the loss of the bus (R5).

        ``already``: the Job is gone.

        Raises:
            ConflictError: It has changed since, or another has its name: read it again.
        """
        metadata: Json = {
            "uid": job.uid,
            "resourceVersion": job.resource_version,
            "annotations": {GENERATION_ANNOTATION: str(generation)},
        }
        try:
            await self._patch(_job_path(job.job), {"metadata": metadata})
        except NotFoundError:
            return "already"
        return "done"

    async def quarantine(self, node: NodeState, mark: Mark) -> None:
        """Cordon and taint the node as it was read, and note why and whether the cordon is ours.

        Raises:
            ConflictError: It has changed since: read it again, decide again.
        """
        taint = {"key": QUARANTINE_TAINT, "value": _label(mark.incident), "effect": "NoSchedule"}
        annotations = {
            INCIDENT_ANNOTATION: mark.incident,
            REASON_ANNOTATION: mark.reason,
            SINCE_ANNOTATION: mark.since,
            ON_BEHALF_ANNOTATION: mark.on_behalf_of,
        }
        spec: Json = {"taints": [*_others(node), taint]}
        if not node.unschedulable:
            annotations[CORDON_ANNOTATION] = _label(mark.incident)
            spec["unschedulable"] = True
        metadata = {"resourceVersion": node.resource_version, "annotations": annotations}
        await self._patch(f"{NODES_PATH}/{node.name}", {"metadata": metadata, "spec": spec})

    async def release(self, node: NodeState) -> None:
        """Undo what `quarantine` did, and nothing else: a cordon that was there before stays.

        Raises:
            ConflictError: It has changed since: read it again, decide again.
        """
        metadata: Json = {
            "resourceVersion": node.resource_version,
            "annotations": dict.fromkeys(OUR_ANNOTATIONS),
        }
        spec: Json = {"taints": list(_others(node)) or None}
        if node.cordoned_by:
            spec["unschedulable"] = None
        await self._patch(f"{NODES_PATH}/{node.name}", {"metadata": metadata, "spec": spec})

    async def evict(self, pod: PodState) -> Written:
        """Have this very pod evicted, which a disruption budget may forbid; as `delete_pod`.

        Raises:
            ThrottledError: A budget forbids it now. It is not tried again: that takes minutes, and
                the server names a time to wait only while it has not looked at the budget yet.
        """
        place = {"name": pod.name, "namespace": pod.job.namespace}
        body: Json = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": place,
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        path = f"/api/v1/namespaces/{pod.job.namespace}/pods/{pod.name}/eviction"
        try:
            await self.create(path, body)
        except (NotFoundError, ConflictError):
            return "already"
        return "done"

    async def say(self, saying: Saying, at: datetime) -> None:
        """Make an Event, unless it is there already: one and the same crash makes no two."""
        await say(self._client, saying, at)

    async def create(self, path: str, body: Json) -> Json:
        """Create an object, with a single try: an answer may be lost after it was made.

        Raises:
            AlreadyExistsError: There is one of that name; after an unanswered try perhaps this.
        """
        return await self._client.call(Request("POST", path, body=body))

    async def _patch(self, path: str, body: Json) -> None:
        await self._client.call(Request("PATCH", path, body=body, content_type=MERGE_PATCH))


def _job_path(job: JobKey) -> str:
    return f"{jobs_path(job.namespace)}/{job.name}"


def _others(node: NodeState) -> tuple[Json, ...]:
    return tuple(taint for taint in node.taints if taint.get("key") != QUARANTINE_TAINT)


def _label(text: str) -> str:
    """A taint's value admits 63 characters of a few kinds; an incident's id may have others."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.")
