"""Core/v1 Events: what we did and saw, for people who describe a Job, a Pod or a Node.

Their names follow from what they say, so one that is made again after a crash is there already.
They are kept for about an hour by the API server, and nothing may depend on them.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from everstep_kube.client import Json, KubeClient, Request
from everstep_kube.errors import AlreadyExistsError
from everstep_kube.objects import JobState, NodeState, PodState

NODE_NAMESPACE: Final = "default"
"""Where the API server wants Events about objects that have no namespace."""
MESSAGE_CHARACTERS: Final = 1000
"""The API server takes 1024."""
NAME_CHARACTERS: Final = 200
COMPONENT: Final = "everstep-rescaler"


@dataclass(frozen=True)
class About:
    """The object that an Event is about."""

    api_version: str
    kind: Literal["Job", "Pod", "Node"]
    namespace: str
    name: str
    uid: str

    @classmethod
    def node(cls, node: NodeState) -> "About":
        """A node."""
        return cls("v1", "Node", "", node.name, node.uid)

    @classmethod
    def pod(cls, pod: PodState) -> "About":
        """A pod."""
        return cls("v1", "Pod", pod.job.namespace, pod.name, pod.uid)

    @classmethod
    def job(cls, job: JobState) -> "About":
        """A Volcano Job."""
        return cls("batch.volcano.sh/v1alpha1", "Job", job.job.namespace, job.job.name, job.uid)


@dataclass(frozen=True)
class Saying:
    """One sentence about an object. ``key`` tells it from others of the same reason."""

    about: About
    reason: str
    message: str
    key: str
    warning: bool = False


async def say(client: KubeClient, saying: Saying, at: datetime) -> None:
    """Make the Event, unless it is there already.

    Raises:
        KubeError: It was refused, or is not known to have been made.
    """
    body = event_body(saying, at)
    path = f"/api/v1/namespaces/{body['metadata']['namespace']}/events"
    try:
        await client.call(Request("POST", path, body=body))
    except AlreadyExistsError:
        return


def event_body(saying: Saying, at: datetime) -> Json:
    """The Event as it is made."""
    about = saying.about
    involved = {
        "apiVersion": about.api_version,
        "kind": about.kind,
        "name": about.name,
        "uid": about.uid,
    }
    if about.namespace:
        involved["namespace"] = about.namespace
    said = "\0".join((about.kind, about.uid, saying.reason, saying.key))
    start = about.name[:NAME_CHARACTERS].rstrip(".-")  # a cut in the wrong place is no name
    name = f"{start}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"
    stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about.namespace or NODE_NAMESPACE},
        "involvedObject": involved,
        "reason": saying.reason,
        "message": saying.message[:MESSAGE_CHARACTERS],
        "type": "Warning" if saying.warning else "Normal",
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }
