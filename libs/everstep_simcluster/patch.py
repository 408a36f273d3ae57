"""The three ways to patch an object: JSON patch, merge patch and strategic merge patch."""

from dataclasses import dataclass
from typing import Any

import jsonpatch
import jsonpointer

from everstep_simcluster.api_errors import (
    ApiError,
    bad_request,
    refused_patch,
    unsupported_media_type,
)
from everstep_simcluster.resources import Object, Resource

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

_CUSTOM_TYPES = (
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
)

# Lists that a strategic patch merges item by item, and the field that tells the items apart.
# Every other list is replaced as a whole; spec.taints, which matters most here, is one of those.
_MERGE_KEYS = {
    "conditions": "type",
    "addresses": "type",
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "ownerReferences": "uid",
    "imagePullSecrets": "name",
}


@dataclass(frozen=True)
class Patch:
    """A change in one of the three forms; ``body`` is the parsed JSON of the request."""

    content_type: str
    body: Any


def apply_patch(resource: Resource, old: Object, patch: Patch) -> Object:
    """``old`` after the patch; ``old`` itself is left alone.

    Raises:
        ApiError: 415 for a form this kind does not take, 422 for a JSON patch that does not
            apply, 400 for a body of the wrong shape.
    """
    content_type, body = patch.content_type, patch.body
    if content_type == JSON_PATCH:
        return _json_patch(old, body)
    if not isinstance(body, dict):
        raise bad_request("the patch must be a JSON object")
    if content_type == MERGE_PATCH:
        return _merged_object(old, body)
    if content_type == STRATEGIC_PATCH and not resource.custom:
        return _strategic(old, body)
    raise _unsupported(resource, content_type)


def _unsupported(resource: Resource, content_type: str) -> ApiError:
    if resource.custom and content_type == STRATEGIC_PATCH:
        return unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            + _CUSTOM_TYPES
        )
    return unsupported_media_type("415: Unsupported Media Type", details={})


def _json_patch(old: Object, operations: Any) -> Object:
    if not isinstance(operations, list):
        raise bad_request("a JSON patch must be a list of operations")
    try:
        patched: Object = jsonpatch.JsonPatch(operations).apply(old)
    except jsonpatch.InvalidJsonPatch as error:
        raise bad_request(f"invalid JSON patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
        raise refused_patch() from error
    return patched


def _merged_object(old: Object, patch: Object) -> Object:
    merged = dict(old)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            before = merged.get(key)
            merged[key] = _merged_object(before if isinstance(before, dict) else {}, value)
        else:
            merged[key] = value
    return merged


def _strategic(old: Object, patch: Object) -> Object:
    if patch.get("$patch") == "replace":
        return {key: value for key, value in patch.items() if key != "$patch"}
    merged = dict(old)
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            merged[name] = [item for item in merged.get(name) or () if item not in value]
        elif key.startswith("$"):
            continue  # order and key hints of kubectl; the result is the same without them
        elif value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _strategic(merged.get(key) or {}, value)
        elif isinstance(value, list) and key in _MERGE_KEYS:
            merged[key] = _merge_items(merged.get(key) or [], value, _MERGE_KEYS[key])
        else:
            merged[key] = value
    return merged


def _merge_items(old: list[Any], patch: list[Any], merge_key: str) -> list[Any]:
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if "$patch" not in item]
    wanted = {item.get(merge_key): item for item in patch}
    kept = [
        _strategic(item, wanted[item.get(merge_key)]) if item.get(merge_key) in wanted else item
        for item in old
        if wanted.get(item.get(merge_key), {}).get("$patch") != "delete"
    ]
    present = {item.get(merge_key) for item in old}
    added = [
        _strategic({}, item)
        for item in patch
        if item.get(merge_key) not in present and item.get("$patch") != "delete"
    ]
    return added + kept  # the real server puts new items first
