"""What a write may and may not do to an object's metadata, and the marks a deletion leaves."""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from everstep_simcluster.api_errors import bad_request, conflict, invalid
from everstep_simcluster.clock import timestamp
from everstep_simcluster.resources import PODS, Object, Resource

_KEPT_METADATA = (
    "name", "namespace", "uid", "creationTimestamp", "generateName", "generation",
    "deletionTimestamp", "deletionGracePeriodSeconds",
)  # fmt: skip
_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_NAME_SUFFIX_LENGTH = 5


@dataclass(frozen=True)
class DeleteOptions:
    """How to delete: seconds of grace (None: the object's own) and what must still hold."""

    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False

    @classmethod
    def from_body(cls, body: Object) -> "DeleteOptions":
        """Read a DeleteOptions object."""
        preconditions = body.get("preconditions") or {}
        return cls(
            grace_seconds=body.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            dry_run=bool(body.get("dryRun")),
        )


def new_metadata(resource: Resource, namespace: str, body: Object) -> Object:
    """The metadata of an object about to be created, named and with an identity of its own.

    Raises:
        ApiError: 422 without a name, 400 for another namespace than the request's.
    """
    given = body.get("metadata") or {}
    if given.get("namespace") and namespace and given["namespace"] != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    name = given.get("name")
    if not name and given.get("generateName"):
        name = given["generateName"] + _random_suffix()
    if not name:
        message = "Required value: name or generateName is required"
        raise invalid(resource, "", [("FieldValueRequired", "metadata.name", message)])
    metadata = {"name": name}
    if resource.namespaced:
        metadata["namespace"] = namespace
    kept = {
        key: value
        for key, value in given.items()
        if key not in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
    }
    return {**kept, **metadata, "uid": str(uuid.uuid4()), "creationTimestamp": timestamp()}


def _random_suffix() -> str:
    digits = uuid.uuid4().bytes[:_NAME_SUFFIX_LENGTH]
    return "".join(_NAME_ALPHABET[digit % len(_NAME_ALPHABET)] for digit in digits)


def settled(resource: Resource, old: Object, new: Object, subresource: str) -> Object:
    """``new`` with all that this request may not change taken from ``old``."""
    metadata, before = dict(new.get("metadata") or {}), old["metadata"]
    if metadata.get("resourceVersion", before["resourceVersion"]) != before["resourceVersion"]:
        raise conflict(resource, before["name"])
    if metadata.get("uid", before["uid"]) != before["uid"]:
        why = (f"Precondition failed: UID in precondition: {metadata['uid']}, "
               f"UID in object meta: {before['uid']}")  # fmt: skip
        raise conflict(resource, before["name"], why)
    metadata.pop("managedFields", None)
    for key in (*_KEPT_METADATA, "resourceVersion"):
        metadata.pop(key, None)
        if key in before:
            metadata[key] = before[key]
    if subresource == "status":
        return {**old, "status": new.get("status") or {}}
    allowed = {
        **new,
        "kind": resource.kind,
        "apiVersion": resource.api_version,
        "metadata": metadata,
    }
    if "spec" in old:
        allowed["spec"] = allowed.get("spec") or {}
    if resource.has_status:
        allowed.pop("status", None)
        if "status" in old:
            allowed["status"] = old["status"]
    return allowed


def asks_for_something_else(resource: Resource, old: Object, new: Object) -> bool:
    """Whether the change counts as a new generation: anything but metadata and status."""
    ignored = {"metadata", "status"} if resource.has_status else {"metadata"}
    keys = (old.keys() | new.keys()) - ignored
    return any(old.get(key) != new.get(key) for key in keys)


def check_preconditions(resource: Resource, old: Object, options: DeleteOptions) -> None:
    """Compare what a deletion expects with what is there.

    Raises:
        ApiError: 409 Conflict.
    """
    metadata = old["metadata"]
    if options.uid is not None and options.uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
        raise conflict(resource, metadata["name"], why, kind=resource.kind)
    version = options.resource_version
    if version is not None and version != metadata["resourceVersion"]:
        why = (f"the ResourceVersion in the precondition ({version}) does not match the "
               f"ResourceVersion in record ({metadata['resourceVersion']}). The object might have "
               "been modified")  # fmt: skip
        raise conflict(resource, metadata["name"], why, kind=resource.kind)


def grace_seconds(resource: Resource, old: Object, options: DeleteOptions) -> int:
    """Only a pod that runs on some node is given time; whatever else goes at once."""
    if resource is not PODS or not old["spec"].get("nodeName"):
        return 0
    if old["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    own: int = old["spec"].get("terminationGracePeriodSeconds", 30)
    return own if options.grace_seconds is None else max(options.grace_seconds, 0)


def marked_for_deletion(old: Object, grace_seconds: int) -> Object:
    """``old`` with the instant at which its grace ends; counts as a generation the first time."""
    metadata = dict(old["metadata"])
    first = "deletionTimestamp" not in metadata
    metadata["deletionTimestamp"] = timestamp(datetime.now(UTC) + timedelta(seconds=grace_seconds))
    metadata["deletionGracePeriodSeconds"] = grace_seconds
    if first and "generation" in metadata:
        metadata["generation"] += 1
    return {**old, "metadata": metadata}
