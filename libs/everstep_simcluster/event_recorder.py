"""Core/v1 Events: what the controllers say about an object, for people who describe it."""

import uuid

from everstep_simcluster.clock import timestamp
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.objects import Objects
from everstep_simcluster.resources import EVENTS, Object
from everstep_simcluster.store import ref_of

EVENT_LIMIT = 1_000
"""Events kept in a namespace; the real server drops them after an hour."""


def record_event(
    objects: Objects, about: Object, reason: str, message: str, *, kind: str = "Normal"
) -> None:
    """Say something about ``about``, which may be gone already. ``kind`` Normal or Warning."""
    metadata = about["metadata"]
    namespace = metadata.get("namespace", "default")
    kept = objects.every(EVENTS, namespace)
    if len(kept) >= EVENT_LIMIT:
        oldest = min(kept, key=lambda event: int(event["metadata"]["resourceVersion"]))
        objects.delete(EVENTS, ref_of(oldest), DeleteOptions())
    involved = {
        "kind": about["kind"],
        "apiVersion": about["apiVersion"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"],
    }
    if "namespace" in metadata:
        involved["namespace"] = namespace
    body = {
        "metadata": {"name": f"{metadata['name']}.{uuid.uuid4().hex[:16]}"},
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "type": kind,
        "count": 1,
        "firstTimestamp": timestamp(),
        "lastTimestamp": timestamp(),
        "source": {"component": "everstep-simcluster"},
    }
    objects.create(EVENTS, namespace, body)
