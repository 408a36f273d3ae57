"""Defaults and checks of the kinds, as far as Everstep meets them; Volcano's own are elsewhere."""

import re
from typing import Any

from everstep_simcluster.api_errors import bad_request, invalid
from everstep_simcluster.pod_checks import check_pod
from everstep_simcluster.pod_defaults import complete_pod, with_text_quantities
from everstep_simcluster.resources import (
    BUDGETS,
    COMMANDS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Object,
    Resource,
)

DATA_LIMIT_BYTES = 1_048_576
"""Total size of a ConfigMap's data that the real server allows."""

ANNOTATIONS_LIMIT_BYTES = 262_144
"""Total size of an object's annotations that the real server allows."""

_MICRO_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_LABEL_NAME = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_LABEL_ADVICE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_MUTABLE_POD_SPEC = ("tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds")
_POD_ADVICE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
_TAINT_EFFECTS = ("NoExecute", "NoSchedule", "PreferNoSchedule")
_NODE_INFO = (
    "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion",
    "kubeletVersion", "kubeProxyVersion", "operatingSystem", "architecture",
)  # fmt: skip


def admit(resource: Resource, body: Object) -> Object:
    """A new object with its defaults filled in.

    Raises:
        ApiError: It breaks a rule of its kind.
    """
    _check_metadata(resource, body)
    if resource is NAMESPACES:
        return _complete_namespace(body)
    if resource is NODES:
        _check_taints(body)
        return _complete_node(body)
    if resource is PODS:
        check_pod(body)
        return complete_pod(body)
    if resource is BUDGETS:
        _check_budget(body)
        return {**body, "status": {"disruptionsAllowed": 0, "currentHealthy": 0,
                                   "desiredHealthy": 0, "expectedPods": 0}}  # fmt: skip
    if resource is QUEUES:
        defaults = {"dequeueStrategy": "traverse", "reclaimable": True, "weight": 1}
        return {**body, "spec": defaults | (body.get("spec") or {})}
    if resource is POD_GROUPS:
        body = {**body, "spec": {"queue": "default"} | (body.get("spec") or {})}
    _check_kind(resource, body)
    return body


def admit_update(resource: Resource, old: Object, new: Object) -> None:
    """Check a changed object against the one it replaces.

    Raises:
        ApiError: 422 for what may not change or breaks a rule, 400 for a malformed time.
    """
    _check_metadata(resource, new)
    if resource is PODS and _fixed_spec(old) != _fixed_spec(new):
        raise invalid(PODS, new["metadata"]["name"], [("FieldValueForbidden", "spec", _POD_ADVICE)])
    _check_kind(resource, new)


def _check_kind(resource: Resource, body: Object) -> None:
    if resource is CONFIG_MAPS:
        _check_data(body)
    elif resource is LEASES:
        _check_lease_times(body)
    elif resource is NODES:
        _check_taints(body)
    elif resource is BUDGETS:
        _check_budget(body)
    elif resource is EVENTS:
        _check_event_namespace(body)
    elif resource is COMMANDS:
        _check_command_target(body)
    elif resource is POD_GROUPS:
        _check_integer(resource, body, "minMember")


def _check_metadata(resource: Resource, body: Object) -> None:
    metadata = body["metadata"]
    annotations = metadata.get("annotations") or {}
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
    if size > ANNOTATIONS_LIMIT_BYTES:
        message = f"Too long: may not be more than {ANNOTATIONS_LIMIT_BYTES} bytes"
        causes = [("FieldValueTooLong", "metadata.annotations", message)]
        raise invalid(resource, metadata["name"], causes)
    for key in metadata.get("labels") or {}:
        if not _LABEL_NAME.match(key.rpartition("/")[2]):
            message = f'Invalid value: "{key}": {_LABEL_ADVICE}'
            causes = [("FieldValueInvalid", "metadata.labels", message)]
            raise invalid(resource, metadata["name"], causes)


def _complete_namespace(body: Object) -> Object:
    metadata = dict(body["metadata"])
    labels = metadata.get("labels") or {}
    metadata["labels"] = {**labels, "kubernetes.io/metadata.name": metadata["name"]}
    return {
        **body,
        "metadata": metadata,
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _complete_node(body: Object) -> Object:
    """A node is born not ready, as the admission plugin of the real server taints it."""
    spec, status = dict(body.get("spec") or {}), dict(body.get("status") or {})
    not_ready = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    spec["taints"] = [*(spec.get("taints") or ()), not_ready]
    for amounts in ("capacity", "allocatable"):
        if amounts in status:
            status[amounts] = with_text_quantities(status[amounts])
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    status["nodeInfo"] = dict.fromkeys(_NODE_INFO, "") | (status.get("nodeInfo") or {})
    return {**body, "spec": spec, "status": status}


def _fixed_spec(pod: Object) -> Object:
    spec = {key: value for key, value in pod["spec"].items() if key not in _MUTABLE_POD_SPEC}
    for containers in ("containers", "initContainers"):
        spec[containers] = [
            {key: value for key, value in container.items() if key != "image"}
            for container in spec.get(containers) or ()
        ]
    return spec


def _check_data(body: Object) -> None:
    texts = (body.get("data") or {}).values()
    binaries = (body.get("binaryData") or {}).values()
    if sum(len(str(value).encode()) for value in (*texts, *binaries)) > DATA_LIMIT_BYTES:
        message = f"Too long: may not be more than {DATA_LIMIT_BYTES} bytes"
        causes = [("FieldValueTooLong", "[]", message)]
        raise invalid(CONFIG_MAPS, body["metadata"]["name"], causes)


def _check_lease_times(body: Object) -> None:
    spec = body.get("spec") or {}
    for field in ("acquireTime", "renewTime"):
        value = spec.get(field)
        if value is not None and not _MICRO_TIME.match(str(value)):
            layout = "2006-01-02T15:04:05.000000Z07:00"
            raise bad_request(
                f'Lease in version "v1" cannot be handled as a Lease: parsing time "{value}" as '
                f'"{layout}": cannot parse "{value}" as "{layout}"'
            )


def _check_taints(body: Object) -> None:
    seen = set()
    for index, taint in enumerate((body.get("spec") or {}).get("taints") or ()):
        where = f"spec.taints[{index}]"
        kind = (taint.get("key"), taint.get("effect"))
        if kind in seen:
            message = "Duplicate value: taints must be unique by key and effect pair"
            causes = [("FieldValueDuplicate", where, message)]
            raise invalid(NODES, body["metadata"]["name"], causes)
        seen.add(kind)
        if not taint.get("key"):
            causes = [("FieldValueRequired", f"{where}.key", "Required value")]
            raise invalid(NODES, body["metadata"]["name"], causes)
        if taint.get("effect") not in _TAINT_EFFECTS:
            known = ", ".join(f'"{effect}"' for effect in _TAINT_EFFECTS)
            message = f'Unsupported value: "{taint.get("effect", "")}": supported values: {known}'
            causes = [("FieldValueNotSupported", f"{where}.effect", message)]
            raise invalid(NODES, body["metadata"]["name"], causes)


def _check_budget(body: Object) -> None:
    spec = body.get("spec") or {}
    for field in ("minAvailable", "maxUnavailable"):
        if not re.fullmatch(r"\d+%?", str(spec.get(field, 0))):
            message = f'Invalid value: "{spec[field]}": must be an integer or percentage'
            causes = [("FieldValueInvalid", f"spec.{field}", message)]
            raise invalid(BUDGETS, body["metadata"]["name"], causes)


def _check_event_namespace(body: Object) -> None:
    """An Event lies where its object does; one about a node lies in ``default``."""
    about = (body.get("involvedObject") or {}).get("namespace", "")
    lies_in = body["metadata"]["namespace"]
    if about != lies_in and not (about == "" and lies_in == "default"):
        message = f'Invalid value: "{about}": does not match event.namespace'
        causes = [("FieldValueInvalid", "involvedObject.namespace", message)]
        raise invalid(EVENTS, body["metadata"]["name"], causes)


def _check_command_target(body: Object) -> None:
    target = body.get("target") or {}
    causes = [
        ("FieldValueRequired", f"target.{field}", "Required value")
        for field in ("apiVersion", "kind", "name", "uid")
        if not target.get(field)
    ]
    if causes:
        raise invalid(COMMANDS, body["metadata"]["name"], causes)


def _check_integer(resource: Resource, body: Object, field: str) -> None:
    value: Any = (body.get("spec") or {}).get(field, 0)
    if not isinstance(value, int):
        message = f'Invalid value: "string": spec.{field} in body must be of type integer: "string"'
        causes = [("FieldValueTypeInvalid", f"spec.{field}", message)]
        raise invalid(resource, body["metadata"]["name"], causes)
